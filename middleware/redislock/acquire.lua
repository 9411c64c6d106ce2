-- Gives the lock to a token if nobody holds it.
--
-- KEYS[1] lock        string: the holder's token; it expires with the lease
-- KEYS[2] fence       string: the highest fence given out
-- KEYS[3] tombstones  zset: token -> server time in µs until which it can't hold
-- ARGV[1] token
-- ARGV[2] TTL of the lease in ms
-- ARGV[3] how long to keep the fence in ms
--
-- Replies {1, fence}       the lock is the token's
--         {0, left in ms}  another token's; -1 is left where it never expires
--         {-1}             the token has been given up and is not to hold again
--
-- Asking again with the same token is safe: where the first reply was lost, the
-- token finds its own lock and not a stranger's. The price is that a question
-- may also arrive after its token was given up, hence the tombstones.

local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then
  return {0, redis.call('PTTL', KEYS[1])}
end
if owner then
  local fence = tonumber(redis.call('GET', KEYS[2]) or '')
  if fence then -- it outlives the lock unless somebody deletes it
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    redis.call('PEXPIRE', KEYS[2], ARGV[3])
    return {1, fence}
  end
end

local t = redis.call('TIME')
local us = t[1] * 1000000 + t[2]
local dead = redis.call('ZSCORE', KEYS[3], ARGV[1])
if dead and tonumber(dead) >= us then
  return {-1}
end

-- Server time makes the fence rise where the counter was lost: it has expired,
-- or the server came back without its data. %.0f, since a Lua number turned
-- into a string any other way loses its last digits.
local fence = (tonumber(redis.call('GET', KEYS[2]) or '') or 0) + 1
if us > fence then
  fence = us
end
redis.call('SET', KEYS[2], string.format('%.0f', fence), 'PX', ARGV[3])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {1, fence}

-- Gives a token up: frees the lock if the token holds it.
--
-- KEYS[1] lock        string: the holder's token; it expires with the lease
-- KEYS[2] tombstones  zset: token -> server time in µs until which it can't hold
-- ARGV[1] token
-- ARGV[2] ms for which the token is never to hold again, or 0: needed where a
--         acquire of the token may still be on its way
--
-- Replies 1   freed
--         0   another token's
--         -1  nobody's

local owner = redis.call('GET', KEYS[1])
if owner == ARGV[1] then
  redis.call('DEL', KEYS[1])
end
if ARGV[2] ~= '0' then
  local t = redis.call('TIME')
  local us = t[1] * 1000000 + t[2]
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('(%.0f', us))
  redis.call('ZADD', KEYS[2], string.format('%.0f', us + ARGV[2] * 1000), ARGV[1])
  redis.call('PEXPIRE', KEYS[2], math.max(tonumber(ARGV[2]), redis.call('PTTL', KEYS[2])))
end
if owner == ARGV[1] then
  return 1
end
return owner and 0 or -1

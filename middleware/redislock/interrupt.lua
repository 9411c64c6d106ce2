-- Asks the holder of a lock to stop: it sees the mark when it next extends.
--
-- KEYS[1] lock       string: the holder's token; it expires with the lease
-- KEYS[2] interrupt  string: "token asked", of a holder that is asked to stop, and
--                    the server time in µs at which it was
--
-- Replies 1  somebody holds the lock and will see it
--         0  nobody holds it
--
-- The mark lives as long as what is left of the lease: by then the holder has
-- extended and seen it, or it holds no more.

local owner = redis.call('GET', KEYS[1])
if not owner then
  return 0
end
local t = redis.call('TIME')
local mark = string.format('%s %.0f', owner, t[1] * 1000000 + t[2])
redis.call('SET', KEYS[2], mark, 'PX', math.max(1, redis.call('PTTL', KEYS[1])))
return 1

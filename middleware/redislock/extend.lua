-- Re-arms the TTL of a lock that a token holds.
--
-- KEYS[1] lock       string: the holder's token; it expires with the lease
-- KEYS[2] fence      string: see queue.lua
-- KEYS[3] interrupt  string: see interrupt.lua
-- ARGV[1] token
-- ARGV[2] TTL of the lease in ms
-- ARGV[3] how long to keep the fence in ms
-- ARGV[4] µs since when the holder has had the lock: whoever of its process had
--         it before, with the same token, may be the one that was to stop. One
--         that is asked within a trip after the lease was passed on is taken for
--         that one
--
-- Replies 1   extended
--         2   extended, and the holder is asked to stop
--         0   not extended: another token's
--         -1  not extended: nobody's

local owner = redis.call('GET', KEYS[1])
if not owner then
  return -1
end

-- include extended.lua

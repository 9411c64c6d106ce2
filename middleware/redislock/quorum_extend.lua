-- Re-arms the TTL of a lock that a token holds, at one master of a quorum. One that has
-- forgotten the lock, or never gave it, is told of it again if it is nobody's: otherwise
-- a lease that outlives several restarts would be on too few in the end.
--
-- KEYS and ARGV are those of extend.lua, and
-- KEYS[4] tombstones  zset: see queue.lua
-- ARGV[5] the last fence of the lease's block, or "" where the master is not to be told
--         again
--
-- Replies what extend.lua does. That a lock was nobody's is said also of one that is the
-- token's from now on: it has not been one of the most meanwhile.

-- include fence.lua

local owner = redis.call('GET', KEYS[1])
if not owner and ARGV[5] == '' then
  return -1
elseif not owner then
  local dead = redis.call('ZSCORE', KEYS[4], ARGV[1])
  if not dead or tonumber(dead) < now() then
    note(ARGV[5], ARGV[3])
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  end
  return -1
end

-- include extended.lua

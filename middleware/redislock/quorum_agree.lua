-- Notes at one master of a quorum the fences that a holder has from most of them: whoever
-- comes next finds them on one master at least. The keys are those of queue.lua.
--
-- ARGV[1] token
-- ARGV[2] the last fence of its block
-- ARGV[3] how long to keep it in ms
-- ARGV[4] token of the caller, which waits no more
-- ARGV[5] ms for which that token is never to wait again, or 0: needed where the acquire
--         may still be on its way
--
-- Replies 1   noted: the lock is the token's
--         0   not noted: another token's
--         -1  not noted: nobody's

redis.call('ZREM', KEYS[4], ARGV[4])
redis.call('HDEL', KEYS[5], ARGV[4])

-- include fence.lua

if ARGV[5] ~= '0' then
  local us = now()
  redis.call('ZADD', KEYS[3], string.format('%.0f', us + ARGV[5] * 1000), ARGV[4])
  redis.call('PEXPIRE', KEYS[3], math.max(tonumber(ARGV[5]), redis.call('PTTL', KEYS[3])))
end
local owner = redis.call('GET', KEYS[1])
if not owner then
  return -1
elseif owner ~= ARGV[1] then
  return 0
end
note(ARGV[2], ARGV[3])
return 1

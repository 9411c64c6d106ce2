-- Gives a token up at one master of a quorum: frees the lock if the token holds it,
-- and its place if it waits. The keys are those of queue.lua.
--
-- ARGV[1] token
-- ARGV[2] ms for which the token is never to hold again, or 0: see leave.lua
-- ARGV[3] "quiet" where the caller asks again at once, or nothing: whoever has waited
--         longest is told that the lock is free
--
-- Replies 1   freed
--         0   the lock is another token's
--         -1  it was nobody's

local token = ARGV[1]
local owner = redis.call('GET', KEYS[1])
-- The short way: see queue.lua.
if owner == token and ARGV[2] == '0' and redis.call('EXISTS', KEYS[4]) == 0 then
  redis.call('DEL', KEYS[1])
  return 1
end

-- include fence.lua
-- include queue.lua

local code = 1
if owner == token then
  redis.call('DEL', KEYS[1])
else
  code = owner and 0 or -1
  remove(token)
end
local us = now()
if ARGV[2] ~= '0' then
  bury(token, ARGV[2], us)
end
-- Also where it was free: whoever was told of that may be the one that leaves.
if code ~= 0 and ARGV[3] ~= 'quiet' and redis.call('EXISTS', KEYS[4]) == 1 then
  local next, _, inbox = oldest(us)
  if next then
    redis.pcall('PUBLISH', inbox, next .. ' 0') -- which is no fence
  end
end
return code

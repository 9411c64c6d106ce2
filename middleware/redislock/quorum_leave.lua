-- Gives a token up at one master of a quorum: frees the lock if the token holds it,
-- and its place if it waits. The keys are those of grant.lua.
--
-- ARGV[1] token
-- ARGV[2] ms for which the token is never to hold again, or 0: see leave.lua
-- ARGV[3] "quiet" after an attempt that came to nothing, or nothing: whoever has
--         waited longest is told that the lock is free
--
-- Replies 1   freed
--         0   the lock is another token's
--         -1  it was nobody's

-- include fence.lua
-- include grant.lua

-- wake tells who has waited longest and is alive: "token 0", which is no fence.
local function wake(us)
  for _ = 1, 128 do
    local token = redis.call('ZPOPMIN', KEYS[4])[1]
    if not token then
      return
    end
    local entry = redis.call('HGET', KEYS[5], token) or ''
    redis.call('HDEL', KEYS[5], token)
    local deadline, inbox = string.match(entry, '^(%d+) %d+ (.+)$')
    if deadline and tonumber(deadline) >= us and alive(inbox) then
      redis.pcall('PUBLISH', inbox, token .. ' 0')
      return
    end
  end
end

local token = ARGV[1]
local owner = redis.call('GET', KEYS[1])
local code = 1
if owner == token then
  redis.call('DEL', KEYS[1])
else
  code = owner and 0 or -1
  remove(token)
end
if ARGV[2] ~= '0' then
  bury(token, ARGV[2], now())
end
if code == 1 and ARGV[3] ~= 'quiet' and redis.call('EXISTS', KEYS[4]) == 1 then
  wake(now())
end
return code

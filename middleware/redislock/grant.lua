-- How the lock is given on. It stands after fence.lua and queue.lua, whose keys it has.

-- grant gives the lock, which must be free, to who has waited longest and is
-- alive. It replies the token, its fence and the TTL in ms, or nothing. asker is
-- who runs the script: it hears of it by the reply.
--
-- Whoever finds the lock free grants first, so that nobody overtakes those who
-- wait, and nobody starves after an expiry.
local function grant(us, asker)
  us = us or now()
  local token, ttl, inbox = oldest(us, asker)
  if not token then
    return
  end
  local fence = hold(token, ttl, us)
  if inbox ~= '' and token ~= asker then
    redis.pcall('PUBLISH', inbox, string.format('%s %.0f', token, fence))
  end
  return token, fence, tonumber(ttl)
end

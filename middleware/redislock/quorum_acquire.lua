-- Gives the lock of one master of a quorum to a token if it is free; otherwise the
-- caller can wait to be told when it is. The keys are those of queue.lua.
--
-- ARGV[1] token, of this attempt only
-- ARGV[2] TTL of the lease in ms
-- ARGV[3] token of the caller, by which it waits, or "": it does not
-- ARGV[4] inbox: the channel that its process is subscribed to
-- ARGV[5] ms that it keeps its place without asking again
-- ARGV[6] µs that it has waited
-- ARGV[7] ms for which a free lock is given to nobody: see acquire.lua
--
-- Replies {1, fence}                 the lock is the token's, as far as this master goes
--         {2, 0, left, 0, kept}     another's, or kept back: see acquire.lua
--         {-1}                       the token has been given up
--
-- Nobody is granted a lock unasked here, and whoever asks while it is free gets it:
-- masters that know nothing of each other would not choose the same.

-- include fence.lua

local token, ttl, caller = ARGV[1], ARGV[2], ARGV[3]
-- The short way: see queue.lua.
if ARGV[7] == '0' and redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[4]) == 0 then
  return {1, hold(token, ttl, now())}
end

-- include queue.lua

local owner = redis.call('GET', KEYS[1])
if owner == token then
  local fence = again(ttl)
  if fence then
    return {1, fence}
  end
  owner = false
end
local us = now()
if given_up(token, us) then
  return {-1}
end
if not owner and ARGV[7] == '0' then
  if caller ~= '' then
    remove(caller)
  end
  return {1, hold(token, ttl, us)}
end
if caller ~= '' and not given_up(caller, us) then
  enter(caller, ttl, ARGV[4], ARGV[5], ARGV[6], us)
end
local left = owner and redis.call('PTTL', KEYS[1]) or tonumber(ARGV[7])
return {2, 0, left, 0, owner and 0 or 1}

-- Gives the lock to a token if it is free and nobody has waited longer, or a
-- place in the queue. The keys are those of queue.lua.
--
-- ARGV[1] token
-- ARGV[2] TTL of the lease in ms
-- ARGV[3] try, wait or poll: whether it queues, and hears of a grant in its
--         inbox or asks for it
-- ARGV[4] inbox: the channel that its process is subscribed to, or ""
-- ARGV[5] ms that it keeps its place without asking again
-- ARGV[6] most that may wait before it, or 0: no limit, it has waited already
-- ARGV[7] µs that its caller has waited
-- ARGV[8] ms for which a free lock is given to nobody: the server came back and
--         may have forgotten a holder
--
-- Replies {1, fence}  the lock is the token's
--         {2, highest, left, before, kept}  another's; a try ends here
--         {3, highest, left, before, kept}  another's, and the token is in the
--                                           queue
--         {4, highest, left, before, kept}  the same, but nobody would tell it of
--                                           a grant: subscribe, then ask again
--         {5, highest, left, before, kept}  another's, and the queue is full
--         {-1}        the token has been given up
--
-- highest is the highest fence given out: a grant of which the token hears
-- later has a greater one, or it is older than this reply. left is what the
-- holder's lease has left in ms, -1 where it never ends; before is how many
-- wait before the token; kept is 1 where the lock is nobody's and kept back.
--
-- Asking again with the same token is safe: where the reply was lost, the token
-- finds its own lock, and a place that it has it keeps. The price is that a
-- question may also arrive after its token was given up, hence the tombstones.

-- include fence.lua

local token, ttl, mode, inbox = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
-- The short way: see queue.lua.
if ARGV[8] == '0' and redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[4]) == 0 then
  return {1, hold(token, ttl, now())}
end

-- include queue.lua
-- include grant.lua

local owner = redis.call('GET', KEYS[1])
if owner == token then
  local fence = again(ttl)
  if fence then
    return {1, fence}
  end
  owner = false
end

local us = now()
local left
local kept = not owner and ARGV[8] ~= '0' and 1 or 0
if owner then
  left = redis.call('PTTL', KEYS[1])
elseif kept == 1 then
  left = tonumber(ARGV[8])
end

if given_up(token, us) then
  remove(token)
  if not left then
    grant(us)
  end
  return {-1}
end

local placed, entered
if mode ~= 'try' then
  placed = redis.call('HDEL', KEYS[5], token) == 1 -- the first write: see queue.lua
end
if not left then
  if mode ~= 'try' then
    enter(token, ttl, inbox, ARGV[5], ARGV[7], us)
    entered = true
  end
  local granted, fence, its_ttl = grant(us, token)
  if granted == token then
    return {1, fence}
  elseif granted then
    left = its_ttl
  elseif redis.call('EXISTS', KEYS[4]) == 0 then
    return {1, hold(token, ttl, us)} -- a try, and nobody alive waits
  else
    left = 0 -- more of them than one turn takes
  end
end

if mode == 'try' then
  return {2, highest(us), left, 0, kept}
end
if ARGV[6] ~= '0' and not placed then
  local waiting = redis.call('ZCARD', KEYS[4]) - (entered and 1 or 0)
  if waiting >= tonumber(ARGV[6]) then
    remove(token)
    return {5, highest(us), left, waiting, kept}
  end
end
if not entered then
  enter(token, ttl, inbox, ARGV[5], ARGV[7], us)
end
local before = redis.call('ZRANK', KEYS[4], token)
return {mode == 'wait' and inbox == '' and 4 or 3, highest(us), left, before, kept}

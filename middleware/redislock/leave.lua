-- Gives a token up: frees the lock if the token holds it, and its place in the
-- queue if it waits; whoever has waited longest gets a lock that is free. The
-- next caller of the same process can be entered on the way. The keys are those of
-- queue.lua.
--
-- ARGV[1] token
-- ARGV[2] ms for which the token is never to hold again, or 0: needed where an
--         acquire of the token may still be on its way
-- and optionally, of the next caller, as in acquire.lua:
-- ARGV[3] token
-- ARGV[4] TTL of its lease in ms
-- ARGV[5] inbox
-- ARGV[6] ms that it keeps its place without asking again
-- ARGV[7] µs that it has waited
--
-- Replies 1   freed
--         0   the lock is another token's
--         -1  it was nobody's
-- With a next caller it replies {code, ...}, where ... is what acquire.lua replies
-- to that caller, except that how many wait before it is not counted.
--
-- A lock that was nobody's is not given on here: the server may have come back
-- and forgotten a holder, which acquire.lua is told. The next caller then asks.

local token, waiter, inbox = ARGV[1], ARGV[3], ARGV[5]
local owner = redis.call('GET', KEYS[1])
-- The short way: see queue.lua.
if owner == token and ARGV[2] == '0' and not waiter and redis.call('EXISTS', KEYS[4]) == 0 then
  redis.call('DEL', KEYS[1])
  return 1
end

-- include fence.lua
-- include queue.lua
-- include grant.lua

local code = 1
if owner == token then
  redis.call('DEL', KEYS[1])
else
  code = owner and 0 or -1
  remove(token)
end

local us
if ARGV[2] ~= '0' then
  us = now()
  bury(token, ARGV[2], us)
end

if waiter and owner == waiter then -- this is sent for the second time
  return {code, 1, again(ARGV[4])}
elseif waiter then
  us = us or now()
  if given_up(waiter, us) then
    waiter = nil
  else
    enter(waiter, ARGV[4], inbox, ARGV[6], ARGV[7], us)
  end
end
local granted, fence, left
if code == 1 then
  granted, fence, left = grant(us, waiter)
end
if not ARGV[3] then
  return code
elseif not waiter then
  return {code, -1}
elseif granted == waiter then
  return {code, 1, fence}
end
left = left or code == 0 and redis.call('PTTL', KEYS[1]) or 0
return {code, inbox == '' and 4 or 3, highest(us), left, 0}

-- Notes at one master of a quorum the fences on which a holder has agreed with itself:
-- whoever comes next finds them on one master at least.
--
-- KEYS[1] lock   string: the holder's token
-- KEYS[2] fence  string: see grant.lua
-- ARGV[1] token
-- ARGV[2] the last fence of its block
-- ARGV[3] how long to keep it in ms
--
-- Replies 1   noted: the lock is the token's
--         0   not noted: another token's
--         -1  not noted: nobody's

-- include fence.lua

local owner = redis.call('GET', KEYS[1])
if not owner then
  return -1
end
if owner ~= ARGV[1] then
  return 0
end
note(ARGV[2], ARGV[3])
return 1

-- What extend.lua and quorum_extend.lua have in common: what follows once somebody owns
-- the lock.

if owner ~= ARGV[1] then
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
local mark = redis.call('GET', KEYS[3])
if mark then
  local token, asked = string.match(mark, '^(%S+) (%d+)$')
  local t = redis.call('TIME')
  if token == ARGV[1] and tonumber(asked) >= t[1] * 1000000 + t[2] - ARGV[4] then
    return 2
  end
end
return 1

-- How the lock, KEYS[1], is given to a token, with a fence, KEYS[2], that rises. See
-- queue.lua for what is in them.

local minute = 60000
local block = 64 -- fences for each lease: a process passes one on at most 63 times

local function now()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- raise gives out the next block of fences and replies the first. Server time
-- makes it rise where the counter was lost: it has expired, or the server came
-- back without its data. %.0f, since a Lua number turned into a string any other
-- way loses its last digits.
local function raise(us, ttl)
  local last = us + block - 1
  local life = ttl + minute
  local before = redis.call('SET', KEYS[2], string.format('%.0f', last), 'PX', life, 'GET')
  before = tonumber(before or '') or 0
  if before >= us then
    last = before + block
    redis.call('SET', KEYS[2], string.format('%.0f', last), 'PX', life)
  end
  return last - block + 1
end

-- note makes sure that no fence up to last is given out again, for life ms.
local function note(last, life)
  local before = tonumber(redis.call('GET', KEYS[2]) or '') or 0
  if before < tonumber(last) then
    redis.call('SET', KEYS[2], last, 'PX', life)
  end
end

local function hold(token, ttl, us)
  local fence = raise(us, ttl)
  redis.call('SET', KEYS[1], token, 'PX', ttl)
  return fence
end

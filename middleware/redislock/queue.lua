-- What the scripts have in common that know who waits. It stands after fence.lua, and
-- after what can do without: to make these functions takes Redis as long as two
-- commands. The rules that they follow, and why, are internal/handoffmodel/RULES.md.
-- All know these
--
-- KEYS[1] lock        string: the holder's token; it expires with the lease
-- KEYS[2] fence       string: the last fence of the newest block
-- KEYS[3] tombstones  zset: token -> server time in µs until which it can't hold
-- KEYS[4] queue       zset: waiting token -> its ticket, the server time in µs
--                     at which its caller began to wait
-- KEYS[5] entries     hash: waiting token -> "deadline ttl inbox": the server
--                     time in µs until which it waits unless it asks again, the
--                     TTL of its lease in ms, and the channel on which its
--                     process hears of grants; "" where it asks instead
--
-- Writes are in this order, so that a server that is out of memory lets the lock be
-- freed and passed on: the first write of a script deletes, what is set comes after
-- that, and a message that can't be sent is no error.

-- highest is what a later grant must exceed to be one. The server may have come
-- back without the counter, or with an older one, while a grant of before is on
-- its way to the waiter: its fence is below the time.
local function highest(us)
  return math.max(tonumber(redis.call('GET', KEYS[2]) or '') or 0, us - 1)
end

-- again re-arms the TTL of the holder's lock and replies its first fence. The
-- counter outlives the lock unless somebody deletes it: then the lock is nobody's.
local function again(ttl)
  local fence = tonumber(redis.call('GET', KEYS[2]) or '')
  if fence then
    redis.call('PEXPIRE', KEYS[1], ttl)
    redis.call('PEXPIRE', KEYS[2], ttl + minute)
  end
  return fence and fence - block + 1
end

local function given_up(token, us)
  local dead = redis.call('ZSCORE', KEYS[3], token)
  return dead and tonumber(dead) >= us
end

-- bury has a token remembered as given up, and forgets those whose time is over.
local function bury(token, ms, us)
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('(%.0f', us))
  redis.call('ZADD', KEYS[3], string.format('%.0f', us + ms * 1000), token)
  redis.call('PEXPIRE', KEYS[3], math.max(tonumber(ms), redis.call('PTTL', KEYS[3])))
end

-- enter puts a token into the queue, or keeps its place and its oldest ticket.
local function enter(token, ttl, inbox, life, age, us)
  redis.call('ZADD', KEYS[4], 'LT', string.format('%.0f', us - age), token)
  redis.call('HSET', KEYS[5], token, string.format('%.0f %s %s', us + life * 1000, ttl, inbox))
  redis.call('PEXPIRE', KEYS[4], ttl + minute)
  redis.call('PEXPIRE', KEYS[5], ttl + minute)
end

local function remove(token)
  redis.call('ZREM', KEYS[4], token)
  redis.call('HDEL', KEYS[5], token)
end

-- alive decides before anything is written: how many a message reaches says
-- nothing about whether the waiter got it. Who may not ask is believed, and in a
-- Cluster, where a server knows its own subscribers only, everybody is until his
-- deadline. in_cluster is set ahead of the script.
local function alive(inbox)
  if in_cluster or inbox == '' then
    return true
  end
  local reply = redis.pcall('PUBSUB', 'NUMSUB', inbox)
  return reply.err ~= nil or reply[2] > 0
end

-- oldest takes out who has waited longest and is alive, and replies the token, the TTL
-- in ms and the inbox, or nothing. asker, who runs the script, is.
--
-- The turns are bounded, so that a long line of the dead does not hold up the server;
-- who comes next goes on.
local function oldest(us, asker)
  for _ = 1, 128 do
    local token = redis.call('ZPOPMIN', KEYS[4])[1]
    if not token then
      return
    end
    local entry = redis.call('HGET', KEYS[5], token) or ''
    redis.call('HDEL', KEYS[5], token)
    local deadline, ttl, inbox = string.match(entry, '^(%d+) (%d+) (.*)$')
    if deadline and (token == asker or tonumber(deadline) >= us and alive(inbox)) then
      return token, ttl, inbox
    end
  end
end

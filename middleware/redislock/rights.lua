-- Says whether scripts may do what the inbox of a process needs, by doing it to one
-- that hears of a grant to nobody.
--
-- ARGV[1] inbox: the channel that the process is subscribed to
--
-- Replies {numsub, publish}: the error of each, or ""

local function refusal(...)
  local reply = redis.pcall(...)
  return type(reply) == 'table' and reply.err or ''
end

return {refusal('PUBSUB', 'NUMSUB', ARGV[1]), refusal('PUBLISH', ARGV[1], '')}

-- Takes the lock if it is free, without a look at the queue. The owner of the token is granted
-- what it has, for the whole TTL: a repetition after a lost reply finds itself.
-- A free one is mostly granted above, by grant_free.lua.
-- KEYS   lock, record, queue
-- ARGV   token, ttl_ms, owner, the client that is to be told by a message when it is free, or ''
-- Reply  the fence: granted; the holder: somebody else has it

local held, foreign = lease_read(KEYS[1])
if foreign then return foreign end
if not held then
  local fence, refused = lease_grant(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3])
  return fence or refused
end
if held.token == ARGV[1] then
  return lease_extend(KEYS[1], KEYS[2], ARGV[2]) or held.fence
end
if ARGV[4] ~= '' then
  local marked = redis.pcall('ZADD', KEYS[3], '+inf', '*' .. ARGV[4])
  if lease_refused(marked) then return marked end
  -- As long as whoever left the mark may sleep before it asks again.
  local life_ms = redis.call('PTTL', KEYS[1]) + 2000
  if redis.call('PTTL', KEYS[3]) < life_ms then redis.call('PEXPIRE', KEYS[3], life_ms) end
end
return lease_holder(KEYS[1], KEYS[2], held)

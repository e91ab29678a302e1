-- Puts dead letters back into the queue as if they had never been tried, all of them or none.
-- KEYS: ready stream, delayed set, number of waiting, dead letters; then the list of each group.
-- ARGV: consumer group, most open messages; then two a dead letter: its entry, index in KEYS of
--   its group's list or 0.
-- Returns how many were put back in a list; the number of open messages alone when they are too
--   many, and then none was.
local ready, delayed, waiting, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local consumers, most = ARGV[1], tonumber(ARGV[2])

local behind = tonumber(redis.call('GET', waiting) or 0)
if not behind then
  return redis.error_reply('WRONGTYPE the number of waiting messages is no number')
end
local open = redis.call('XLEN', ready) + redis.call('ZCARD', delayed) + behind
local letters = {}
for at = 3, #ARGV, 2 do
  local found = redis.call('XRANGE', dead, ARGV[at], ARGV[at])[1]
  if found then
    letters[#letters + 1] = {found, tonumber(ARGV[at + 1])}
  end
end
if #letters > 0 and open + #letters > most then
  return open
end
for index = 5, #KEYS do
  redis.call('LLEN', KEYS[index])
end

if redis.call('EXISTS', ready) == 0 then
  redis.call('XGROUP', 'CREATE', ready, consumers, '0', 'MKSTREAM')
end
-- Deletes nothing, see queue_settle.
redis.call('XDEL', dead, '0-0')
local held_back = 0
for _, letter in ipairs(letters) do
  local entry, fields, list = letter[1][1], letter[1][2], letter[2]
  local message = {}
  for i = 1, #fields, 2 do
    message[fields[i]] = fields[i + 1]
  end
  if list > 0 and redis.call('LLEN', KEYS[list]) > 0 then
    redis.call('RPUSH', KEYS[list], cmsgpack.pack(message.i, message.g, message.b, message.t or ''))
    held_back = held_back + 1
  else
    if list > 0 then
      redis.call('RPUSH', KEYS[list], '')
    end
    if message.t then
      redis.call('XADD', ready, '*',
        'i', message.i, 'g', message.g, 'n', 0, 'b', message.b, 't', message.t)
    else
      redis.call('XADD', ready, '*', 'i', message.i, 'g', message.g, 'n', 0, 'b', message.b)
    end
  end
  redis.call('XDEL', dead, entry)
end
if held_back > 0 then
  redis.call('INCRBY', waiting, held_back)
end
if redis.call('XLEN', dead) == 0 then
  redis.call('DEL', dead)
end
return {#letters}

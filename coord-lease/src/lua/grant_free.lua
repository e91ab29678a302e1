-- Above the functions of format.lua, which cost the server more to make than this takes: grants a
-- key that is free, where its record is in order and the clock went on since the last grant. All
-- else goes on below, and this has written nothing then.
-- KEYS   key, record
-- ARGV   token, ttl_ms, owner
-- Reply  the fence

do
  local last = redis.pcall('GET', KEYS[2])
  local time = redis.call('TIME')
  local micros = string.sub('00000' .. time[2], -6)
  local fence = time[1] .. micros
  -- As text, which goes for numbers where both have 16 digits.
  local grows = not last or (type(last) == 'string' and last < fence
    and string.sub(last, 17, 17) == ':' and string.find(last, '^%d+:%d+:'))
  if grows then
    local set = redis.pcall('SET', KEYS[1], ARGV[1] .. ':' .. fence, 'NX', 'PX', ARGV[2])
    if set and set.ok then
      local since_ms = time[1] .. string.sub(micros, 1, 3)
      set = redis.pcall('SET', KEYS[2], fence .. ':' .. since_ms .. ':' .. ARGV[3],
        'PX', ARGV[2] + 86400000)
      if set.ok then return fence end
      redis.call('DEL', KEYS[1])
      return set
    end
  end
end

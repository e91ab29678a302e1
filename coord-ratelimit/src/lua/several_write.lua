  if not fits then all, value = false, healed end
  values[i], expiries[i] = {fits, value}, expire_ms
  reply[3 * i], reply[3 * i + 1], reply[3 * i + 2] = x, y, z
end
if not all then reply[1] = 0 end
for i, key in ipairs(KEYS) do
  local fits, value = values[i][1], values[i][2]
  -- Where one does not fit, only what the clock left behind is mended.
  if value and fits == all then
    local set = redis.pcall('SET', key, value, 'PXAT', string.format('%.0f', expiries[i]))
    if set.err then return set end
  elseif all then
    redis.call('DEL', key)
  end
end
return reply

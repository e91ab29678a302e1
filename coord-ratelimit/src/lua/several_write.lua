  if not fits then all, value = false, healed end
  values[i], expiries[i] = {fits, value}, expire_us
  reply[3 * i], reply[3 * i + 1], reply[3 * i + 2] = x, y, z
end
if not all then reply[1] = 0 end
for i, key in ipairs(KEYS) do
  local fits, value = values[i][1], values[i][2]
  -- Where one does not fit, only what the clock left behind is mended.
  if value and fits == all then
    -- Rounded up. The call writes a number below 2^53 with all of its digits; `..` would not.
    local up = expiries[i] + 999
    local set = redis.pcall('SET', key, value, 'PXAT', (up - up % 1000) / 1000)
    if set.err then return set end
  elseif all then
    redis.call('DEL', key)
  end
end
return reply

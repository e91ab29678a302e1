if not fits then value = healed end
if value then
  local set = redis.pcall('SET', key, value, 'PXAT', string.format('%.0f', expire_ms))
  if set.err then return set end
elseif fits then
  redis.call('DEL', key)
end
return {fits and 1 or 0, now, x, y, z}

if not fits then value = healed end
if value then
  -- Rounded up. The call writes a number below 2^53 with all of its digits; `..` would not.
  local up = expire_us + 999
  local set = redis.pcall('SET', key, value, 'PXAT', (up - up % 1000) / 1000)
  if set.err then return set end
elseif fits then
  redis.call('DEL', key)
end
return {fits and 1 or 0, now, x, y, z}

-- Tells who holds leases; writes nothing.
-- KEYS   the key and the record of each
-- Reply  for each: its holder, nil when it is free, 0 when it is not a lease

local replies = {}
for index = 1, #KEYS, 2 do
  local held, foreign = lease_read(KEYS[index])
  if foreign then
    replies[#replies + 1] = 0
  else
    replies[#replies + 1] = held and lease_holder(KEYS[index], KEYS[index + 1], held) or false
  end
end
return replies

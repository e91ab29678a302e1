-- Removes a placeholder whose load came to nothing, and tells those who wait for it.
-- KEYS   value
-- ARGV   placeholder, channel, the verb that publishes
-- Reply  1 removed, 0 something else is there, or nothing

local head = redis.pcall('GETRANGE', KEYS[1], 0, #ARGV[1] - 1)
if type(head) == 'table' then return head end
local removed = 0
if head == ARGV[1] then removed = redis.call('DEL', KEYS[1]) end
redis.pcall(ARGV[3], ARGV[2], '')
return removed

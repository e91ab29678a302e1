-- Says that somebody waits at a stream, which is there from then on for a while.
-- KEYS: the stream.
-- ARGV: its group, for how long it is there in ms.
-- Returns 1.
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('XGROUP', 'CREATE', KEYS[1], ARGV[1], '$', 'MKSTREAM')
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1

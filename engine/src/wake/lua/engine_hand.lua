-- Hands ids over to whoever waits at a stream.
-- KEYS: the stream.
-- ARGV: most entries that it keeps; then the ids.
-- Returns 1, or 0 when nobody waits there, and then nothing was added.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
for i = 2, #ARGV do
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'i', ARGV[i])
end
return 1

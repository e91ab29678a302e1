//! Where a RESP2 or RESP3 frame ends, and what a RESP2 frame says.

use super::Resp;

/// How far the first frame of a buffer goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// It is the first so many bytes.
    Complete(usize),
    /// Its end has not come yet.
    Partial,
    /// These bytes are not RESP.
    Foreign,
}

/// Finds the end of the first frame in `bytes`.
pub(crate) fn length(bytes: &[u8]) -> Length {
    match end_of_frame(bytes, 0) {
        Ok(end) => Length::Complete(end),
        Err(short) => short,
    }
}

fn end_of_frame(bytes: &[u8], start: usize) -> Result<usize, Length> {
    let Some(kind) = bytes.get(start) else {
        return Err(Length::Partial);
    };
    let (line, after) = match kind {
        b'+' | b'-' | b':' | b',' | b'#' | b'_' | b'(' | b'$' | b'=' | b'!' | b'*' | b'~'
        | b'>' | b'%' | b'|' => line(bytes, start + 1).ok_or(Length::Partial)?,
        _ => return Err(Length::Foreign),
    };
    let children = match kind {
        b'$' | b'=' | b'!' => {
            let end = match number(line)? {
                ..0 => after,
                length => after + length.unsigned_abs() as usize + 2,
            };
            return if end <= bytes.len() {
                Ok(end)
            } else {
                Err(Length::Partial)
            };
        }
        b'*' | b'~' | b'>' => number(line)?,
        b'%' => 2 * number(line)?,
        // An attribute comes before the value it describes.
        b'|' => 2 * number(line)? + 1,
        _ => 0,
    };
    (0..children).try_fold(after, |start, _| end_of_frame(bytes, start))
}

/// The rest of the line from `start`, and where the next one begins.
fn line(bytes: &[u8], start: usize) -> Option<(&[u8], usize)> {
    let length = bytes
        .get(start..)?
        .windows(2)
        .position(|pair| pair == b"\r\n")?;
    Some((&bytes[start..start + length], start + length + 2))
}

fn number(line: &[u8]) -> Result<i64, Length> {
    let text = std::str::from_utf8(line).map_err(|_| Length::Foreign)?;
    text.parse().map_err(|_| Length::Foreign)
}

/// Reads one complete RESP2 frame.
pub(crate) fn parse(frame: &[u8]) -> Option<Resp> {
    let (&kind, _) = frame.split_first()?;
    let (head, after) = line(frame, 1)?;
    let text = String::from_utf8_lossy(head).into_owned();
    let count = || number(head).ok();
    Some(match kind {
        b'+' => Resp::Simple(text),
        b'-' => Resp::Error(text),
        b':' => Resp::Int(count()?),
        b'$' | b'*' if count()? < 0 => Resp::Nil,
        b'$' => Resp::Bulk(frame[after..frame.len() - 2].to_vec()),
        b'*' => {
            let mut rest = &frame[after..];
            let mut items = Vec::new();
            for _ in 0..count()? {
                let Length::Complete(length) = length(rest) else {
                    return None;
                };
                items.push(parse(&rest[..length])?);
                rest = &rest[length..];
            }
            Resp::Array(items)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_proper_prefix_of_a_frame_is_partial() {
        for frame in [
            "+OK\r\n",
            ":-7\r\n",
            "$-1\r\n",
            "$5\r\na\r\nbc\r\n",
            "*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
            "%1\r\n+a\r\n#t\r\n",
            "|1\r\n+ttl\r\n:3\r\n$1\r\nx\r\n",
            ">2\r\n+message\r\n=5\r\ntxt:a\r\n",
        ] {
            for cut in 0..frame.len() {
                assert_eq!(
                    length(&frame.as_bytes()[..cut]),
                    Length::Partial,
                    "{frame:?} {cut}"
                );
            }

            let followed = format!("{frame}+next\r\n");
            assert_eq!(
                length(followed.as_bytes()),
                Length::Complete(frame.len()),
                "{frame:?}"
            );
        }
    }

    #[test]
    fn bytes_of_another_protocol_are_foreign() {
        assert_eq!(length(b"\x16\x03\x01"), Length::Foreign);
        assert_eq!(length(b"PING\r\n"), Length::Foreign);
    }

    #[test]
    fn a_nested_answer_keeps_its_shape() {
        let answer = parse(b"*3\r\n$1\r\na\r\n$-1\r\n*2\r\n:1\r\n-ERR no\r\n").unwrap();

        let inner = Resp::Array(vec![Resp::Int(1), Resp::Error("ERR no".to_owned())]);
        assert_eq!(
            answer,
            Resp::Array(vec![Resp::Bulk(b"a".to_vec()), Resp::Nil, inner])
        );
    }
}

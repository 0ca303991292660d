//! Message framing in front of tower-lsp, whose own reader ends the server at the first malformed message: here such
//! a message is answered with an error and the next one is served.

use serde::Deserialize;
use serde_json::Value;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader,
    DuplexStream, duplex,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tower_lsp::jsonrpc::{Error, Id, Request, Response};

/// The server's side of the connection, and the tasks that move messages.
pub(crate) struct Transport {
    pub(crate) input: DuplexStream,
    pub(crate) output: DuplexStream,
    pub(crate) reader: JoinHandle<()>,
    pub(crate) forwarder: JoinHandle<()>,
    pub(crate) writer: JoinHandle<()>,
}

const BUFFER: usize = 64 * 1024;
const MAX_HEADER_LINE: u64 = 8 * 1024;
const MAX_MESSAGE: u64 = 512 * 1024 * 1024;

/// Connects the client's streams. Must be called inside a tokio runtime.
pub(crate) fn connect<I, O>(input: I, output: O) -> Transport
where
    I: AsyncRead + Send + Unpin + 'static,
    O: AsyncWrite + Send + Unpin + 'static,
{
    let (to_server, server_input) = duplex(BUFFER);
    let (server_output, from_server) = duplex(BUFFER);
    let (messages, outgoing) = mpsc::channel(64);
    let reader = tokio::spawn(read_client(input, to_server, messages.clone()));
    let forwarder = tokio::spawn(forward_server(from_server, messages));
    let writer = tokio::spawn(write_client(outgoing, output));
    Transport { input: server_input, output: server_output, reader, forwarder, writer }
}

async fn read_client<I: AsyncRead + Unpin>(
    input: I,
    mut to_server: DuplexStream,
    answers: mpsc::Sender<Vec<u8>>,
) {
    let mut input = BufReader::new(input);
    while let Ok(Some(frame)) = read_frame(&mut input).await {
        let answer = match frame {
            Frame::Message(body) => match readable(body) {
                Ok(body) => {
                    if write_frame(&mut to_server, &body).await.is_err() {
                        return;
                    }
                    continue;
                }
                Err(answer) => *answer,
            },
            Frame::Malformed(reason) => parse_error(reason),
        };
        tracing::warn!("malformed message from the client: {:?}", answer.error());
        let Ok(body) = serde_json::to_vec(&answer) else { continue };
        if answers.send(body).await.is_err() {
            return;
        }
    }
}

async fn forward_server(from_server: DuplexStream, messages: mpsc::Sender<Vec<u8>>) {
    let mut from_server = BufReader::new(from_server);
    while let Ok(Some(frame)) = read_frame(&mut from_server).await {
        if let Frame::Message(body) = frame
            && messages.send(body).await.is_err()
        {
            return;
        }
    }
}

async fn write_client<O: AsyncWrite + Unpin>(mut outgoing: mpsc::Receiver<Vec<u8>>, mut output: O) {
    while let Some(body) = outgoing.recv().await {
        if write_frame(&mut output, &body).await.is_err() {
            return;
        }
    }
}

#[derive(Debug, PartialEq)]
enum Frame {
    Message(Vec<u8>),
    Malformed(&'static str),
}

/// The next message; `None` at the end of the input.
async fn read_frame<R: AsyncBufRead + Unpin>(input: &mut R) -> std::io::Result<Option<Frame>> {
    let mut length: Option<Result<u64, ()>> = None;
    let mut header_seen = false;
    loop {
        let mut line = Vec::new();
        if (&mut *input).take(MAX_HEADER_LINE).read_until(b'\n', &mut line).await? == 0 {
            return Ok(None);
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            match length {
                Some(Ok(length)) if length <= MAX_MESSAGE => {
                    let mut body = Vec::new();
                    (&mut *input).take(length).read_to_end(&mut body).await?;
                    return Ok((body.len() as u64 == length).then_some(Frame::Message(body)));
                }
                Some(_) => return Ok(Some(Frame::Malformed("bad Content-Length"))),
                None if header_seen => return Ok(Some(Frame::Malformed("no Content-Length"))),
                None => continue,
            }
        }
        header_seen = true;
        if let Some(value) = content_length(&line) {
            length = Some(value);
        }
    }
}

/// The value of a Content-Length header; what may stand before it on the line (a body that was longer than it said)
/// is skipped.
fn content_length(line: &[u8]) -> Option<Result<u64, ()>> {
    const NAME: &[u8] = b"content-length:";
    let start = line.windows(NAME.len()).rposition(|window| window.eq_ignore_ascii_case(NAME))?;
    let value = std::str::from_utf8(line.get(start + NAME.len()..)?).unwrap_or_default();
    Some(value.trim().parse().map_err(|_| ()))
}

async fn write_frame<W: AsyncWrite + Unpin>(output: &mut W, body: &[u8]) -> std::io::Result<()> {
    let mut frame = format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    frame.extend_from_slice(body);
    output.write_all(&frame).await?;
    output.flush().await
}

/// For each message whether it would be handed on.
pub(super) async fn read_all(bytes: &[u8]) -> Vec<bool> {
    let mut input = BufReader::new(bytes);
    let mut taken = Vec::new();
    while let Ok(Some(frame)) = read_frame(&mut input).await {
        taken.push(match frame {
            Frame::Message(body) => readable(body).is_ok(),
            Frame::Malformed(_) => false,
        });
    }
    taken
}

/// What tower-lsp reads, tried before it does.
#[derive(Deserialize)]
#[serde(untagged)]
enum Incoming {
    Response(#[allow(dead_code)] Response),
    Request(Request),
}

/// A message as tower-lsp takes it, or the answer to one that cannot be read.
fn readable(body: Vec<u8>) -> Result<Vec<u8>, Box<Response>> {
    if std::str::from_utf8(&body).is_err() {
        return Err(Box::new(parse_error("the message is not UTF-8")));
    }
    match serde_json::from_slice::<Incoming>(&body) {
        Ok(Incoming::Request(request)) => match unknown(&request) {
            Some(answer) => Err(Box::new(answer)),
            None => Ok(without_needless_params(request).unwrap_or(body)),
        },
        Ok(Incoming::Response(_)) => Ok(body),
        Err(error) if error.is_data() => {
            Err(Box::new(Response::from_error(request_id(&body), Error::invalid_request())))
        }
        Err(_) => Err(Box::new(parse_error("the message is not JSON"))),
    }
}

/// The answer to a request of a method that a client and a server need not know, which tower-lsp leaves unanswered; such
/// notifications are nobody's.
fn unknown(request: &Request) -> Option<Response> {
    let id = request.id().filter(|_| request.method().starts_with("$/"))?;
    Some(Response::from_error(id.clone(), Error::method_not_found()))
}

/// `shutdown` has no parameters, but some clients send an empty object, which tower-lsp refuses.
fn without_needless_params(request: Request) -> Option<Vec<u8>> {
    if request.method() != "shutdown" || request.params().is_none() {
        return None;
    }
    let (method, id, _) = request.into_parts();
    let bare = Request::build(method);
    serde_json::to_vec(&id.into_iter().fold(bare, |bare, id| bare.id(id)).finish()).ok()
}

fn request_id(body: &[u8]) -> Id {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    value.get("id").cloned().and_then(|id| serde_json::from_value(id).ok()).unwrap_or_default()
}

fn parse_error(reason: &'static str) -> Response {
    let mut error = Error::parse_error();
    error.message = format!("Parse error: {reason}").into();
    Response::from_error(Id::Null, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn frames(bytes: &[u8]) -> Vec<Frame> {
        let mut input = BufReader::new(bytes);
        let mut frames = Vec::new();
        while let Some(frame) = read_frame(&mut input).await.unwrap() {
            frames.push(frame);
        }
        frames
    }

    #[tokio::test]
    async fn frames_are_found_again_after_rubbish() {
        let message = |text: &str| Frame::Message(text.as_bytes().to_vec());
        assert_eq!(
            frames(b"Content-Length: 2\r\nX: y\r\n\r\n{}content-length:2\r\n\r\n[]").await,
            [message("{}"), message("[]")]
        );
        assert_eq!(
            frames(b"X: y\r\n\r\nContent-Length: 2\r\n\r\n{}").await,
            [Frame::Malformed("no Content-Length"), message("{}")]
        );
        assert_eq!(
            frames(b"Content-Length: many\r\n\r\nContent-Length: 2\r\n\r\n{}").await,
            [Frame::Malformed("bad Content-Length"), message("{}")]
        );
        // A body longer than it says: its rest is skipped.
        assert_eq!(
            frames(b"Content-Length: 2\r\n\r\n{}rest Content-Length: 2\r\n\r\n[]").await,
            [message("{}"), message("[]")]
        );
        assert_eq!(frames(b"Content-Length: 20\r\n\r\n{}").await, []);
    }

    #[test]
    fn malformed_messages_are_told_apart() {
        let code =
            |body: &[u8]| readable(body.to_vec()).err().map(|answer| answer.error().unwrap().code.code());
        assert_eq!(code(br#"{"jsonrpc":"2.0","method":"x","id":1}"#), None);
        assert_eq!(code(br#"{"jsonrpc":"2.0","result":null,"id":1}"#), None);
        assert_eq!(code(br#"{"jsonrpc":"2.0","method":"#), Some(-32700));
        assert_eq!(code(b"\xff"), Some(-32700));
        assert_eq!(code(b"[]"), Some(-32600));
        assert_eq!(code(br#"{"jsonrpc":"2.0","method":"$/x","id":"y"}"#), Some(-32601));
        assert_eq!(code(br#"{"jsonrpc":"2.0","method":"$/x"}"#), None);
        assert_eq!(code(&b"[".repeat(100_000)), Some(-32700));
        let answer = readable(br#"{"jsonrpc":"1.0","method":"x","id":"seven"}"#.to_vec()).unwrap_err();
        assert_eq!(answer.id(), &Id::String("seven".into()));
    }

    #[test]
    fn parameters_of_a_shutdown_are_left_out() {
        let taken =
            |body: &str| -> Value { serde_json::from_slice(&readable(body.into()).unwrap()).unwrap() };
        for params in ["{}", "[]", r#"{"x": 1}"#] {
            let shutdown =
                taken(&format!(r#"{{"jsonrpc":"2.0","id":"a","method":"shutdown","params":{params}}}"#));
            assert_eq!(shutdown, serde_json::json!({"jsonrpc": "2.0", "id": "a", "method": "shutdown"}));
        }
        let other = r#"{"jsonrpc":"2.0","id":1,"method":"hover","params":{}}"#;
        assert_eq!(taken(other), serde_json::from_str::<Value>(other).unwrap());
    }
}

// An emulator of SQS that listens on loopback only, and breaks what it is asked to break.
//
//   node sqs.mjs PORT
//
// Prints a line when it listens. POST /faults arms a fault, GET /faults/ID tells what it met:
//
//   on    the operation it waits for, such as SendMessageBatch
//   with  text that the request contains
//   do    pass    only looks
//         cut     closes the connection, nothing is executed
//         lose    executes, and closes the connection instead of answering
//         half    executes, and closes the connection in the middle of the answer
//         answer  does not execute, and answers with `status` and `code`
//         fail    executes without the batch entries that contain `entry`, which fail with `code`
//                 and `senderFault`
//
// A fault is met once. The emulator itself would listen on every address; it is not asked to
// listen at all, but gets its requests from here.
import { createServer } from "node:http";
import { register } from "node:module";

// It opens a database for what it is to keep, which is nothing; older versions of Node have none.
const hook = `export async function resolve(name, context, next) {
  if (name !== "node:sqlite") return next(name, context);
  return { url: "data:text/javascript,export class DatabaseSync {}", shortCircuit: true };
}`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);
const { buildApp } = await import("fauxqs");

const app = buildApp({ logger: false });
await app.ready();
const faults = [];

function take(operation, text) {
  const fault = faults.find((one) => !one.met && one.on === operation && text.includes(one.with));
  if (fault) fault.met = JSON.parse(text);
  return fault;
}

function control(request, text) {
  if (request.method === "POST") return { id: faults.push(JSON.parse(text)) - 1 };
  return { met: faults[Number(request.url.split("/").pop())].met ?? null };
}

async function execute(request, payload) {
  const { method, url, headers } = request;
  const { "content-length": _, ...rest } = headers;
  const done = await app.inject({ method, url, headers: rest, payload });
  // Whether the connection stays is between the client and the server here.
  const { connection: __, ...answered } = done.headers;
  return { status: done.statusCode, headers: answered, body: done.rawPayload };
}

function json(status, value, headers = {}) {
  const type = { "content-type": "application/x-amz-json-1.0" };
  return { status, headers: { ...headers, ...type }, body: Buffer.from(JSON.stringify(value)) };
}

async function withoutSome(request, text, { entry, code, senderFault }) {
  const asked = JSON.parse(text);
  const fails = (one) => JSON.stringify(one).includes(entry);
  const rest = asked.Entries.filter((one) => !fails(one));
  let said = { Successful: [], Failed: [] };
  if (rest.length > 0) {
    const done = await execute(request, JSON.stringify({ ...asked, Entries: rest }));
    said = JSON.parse(done.body.toString());
  }
  const failed = asked.Entries.filter(fails);
  said.Failed.push(
    ...failed.map((one) => ({ Id: one.Id, Code: code, SenderFault: senderFault, Message: code })),
  );
  return json(200, said);
}

async function answer(request, text, fault) {
  if (fault?.do === "answer") {
    return json(fault.status, { __type: `com.amazonaws.sqs#${fault.code}`, message: fault.code });
  }
  return fault?.do === "fail" ? withoutSome(request, text, fault) : execute(request, text);
}

const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString();
  if (request.url.startsWith("/faults")) {
    response.end(JSON.stringify(control(request, text)));
    return;
  }
  const operation = request.headers["x-amz-target"]?.split(".").pop();
  const fault = take(operation, text);
  if (fault?.do === "cut") return request.socket.destroy();
  const { status, headers, body } = await answer(request, text, fault);
  if (fault?.do === "lose") return request.socket.destroy();
  response.writeHead(status, { ...headers, "content-length": body.length });
  if (fault?.do !== "half") return response.end(body);
  response.write(body.subarray(0, body.length / 2), () => request.socket.destroy());
});
server.on("error", (error) => {
  console.error(error.message);
  process.exit(error.code === "EADDRINUSE" ? 3 : 1);
});
// The default closes idle connections after five seconds, just when a client may want to use one.
server.keepAliveTimeout = 60_000;
server.listen(Number(process.argv[2]), "127.0.0.1", () => console.log("listening"));

// A client of Socket.IO that tells what it hears.
//
//   node socket.mjs TOKEN ORIGIN URL...
//
// With no token, and as no page of a browser, where these are empty, it connects to the first URL, and after each connection that failed or ended to the next one, in
// turns. Each line that it reads is a JSON array of an event and its argument, to be sent, such as
// ["join",{"namespace":"default"}]; rooms that it was let into it joins again on every connection. It
// prints:
//
//   connected URL          it was let in
//   refused REASON         it was not, and does not try again
//   disconnected REASON    the connection ended
//   answer JSON            what a request was answered
//   run JSON, missed JSON  what it heard
import { createInterface } from "node:readline";
import { io } from "socket.io-client";

const [token, origin, ...urls] = process.argv.slice(2);
const say = (...words) => console.log(words.join(" "));

let turn = 0;
const socket = io(urls[0], {
    transports: ["websocket"],
    auth: token === "" ? {} : { token },
    extraHeaders: origin === "" ? {} : { origin },
    reconnectionDelay: 20,
    reconnectionDelayMax: 100,
});
socket.io.on("reconnect_attempt", () => {
    turn += 1;
    socket.io.uri = urls[turn % urls.length];
});

const rooms = [];
const send = (event, argument, known) =>
    socket.emit(event, argument, (answer) => {
        if (event === "join" && answer.ok && !known) rooms.push(argument);
        say("answer", JSON.stringify(answer));
    });

socket.on("connect", () => {
    say("connected", urls[turn % urls.length]);
    for (const room of rooms) send("join", room, true);
});
// One that did not reach a node is tried again by itself; one that a node refused is not.
socket.on("connect_error", (error) => {
    if (!socket.active) {
        say("refused", error.message);
        process.exit(0);
    }
});
socket.on("disconnect", (reason) => say("disconnected", reason));
for (const event of ["run", "missed"]) {
    socket.on(event, (heard) => say(event, JSON.stringify(heard)));
}

createInterface({ input: process.stdin }).on("line", (line) => {
    const [event, argument] = JSON.parse(line);
    send(event, argument, false);
});

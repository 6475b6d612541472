// The code that reads a history and a run: the chat loads it beside the history itself.
export { follow } from './follow.ts'
export { LiveReply } from './reply.ts'
export { joined, shown, taken, whole } from './history.ts'
export { sayingOf } from './saying.ts'

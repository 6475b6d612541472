// The code that reads a run. A page that shows a history does not need it, so the chat loads it behind the history.
export { follow } from './follow.ts'
export { LiveReply } from './reply.ts'

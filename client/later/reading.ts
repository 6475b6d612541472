// What a turn needs and a history does not; it is loaded behind the history.
export { follow } from './follow.ts'
export { LiveReply } from './reply.ts'

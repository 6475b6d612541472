import { expectTypeOf, it } from 'vitest'
import type { ErrorBody } from '../../../client/core/error.ts'
import type { EventPayloads, RunEnding } from '../../../client/core/events.ts'
import type {
  Capability,
  ForeignSource,
  IChatSession,
  IMessage,
  PendingApproval,
  TurnUsage,
} from '../../../client/core/records.ts'
import type { TurnEvents, TurnUsage as ServerTurnUsage } from '../../../core/plugin.ts'
import type { ListedCapability } from '../../../core/runtime/agent/capability-list.ts'
import type { ErrorBody as ServerErrorBody } from '../../../core/runtime/http/answer/error-body.ts'
import type { SessionView } from '../../../core/runtime/turns/sessions/sessions.ts'
import type { RunStatus } from '../../../core/runtime/turns/journal/tables.ts'
import type {
  ForeignSource as ServerForeignSource,
  WaitingCall,
} from '../../../core/runtime/turns/run.ts'
import type { HistoryMessage } from '../../../core/runtime/turns/wire/history-line.ts'

// The packed client has no types of the server beside it, so its own say the same. `npm run types` compares the two.

it('a type that client and server both have is the same', () => {
  expectTypeOf<ErrorBody>().toEqualTypeOf<ServerErrorBody>()
  expectTypeOf<IChatSession>().toEqualTypeOf<SessionView>()
  expectTypeOf<ForeignSource>().toEqualTypeOf<ServerForeignSource>()
  // A check in both directions, because the models of both are read-only lists.
  expectTypeOf<TurnUsage>().toExtend<ServerTurnUsage>()
  expectTypeOf<ServerTurnUsage>().toExtend<TurnUsage>()
})

it('a line of the server’s history is a message of a chat', () => {
  // The kernel does not know what an attachment is; the client does.
  expectTypeOf<Omit<HistoryMessage, 'attachments'>>().toExtend<Omit<IMessage, 'attachments'>>()
})

it('every event that a server sends is one that the client reads, and the client waits for no other', () => {
  expectTypeOf<keyof EventPayloads>().toEqualTypeOf<keyof TurnEvents>()
  expectTypeOf<TurnEvents>().toExtend<EventPayloads>()
})

it('every way in which a run can end is known to the client, and no other', () => {
  type Open = 'queued' | 'running' | 'continued'
  expectTypeOf<RunEnding>().toEqualTypeOf<Exclude<RunStatus, Open>>()
})

it('a call that waits on the server can be shown by the client', () => {
  expectTypeOf<Omit<WaitingCall, 'args'>>().toExtend<Omit<PendingApproval, 'runId' | 'args'>>()
})

it('a capability as the server lists it is one as the client knows it', () => {
  // The server reads the visibility from a manifest, where it is one of the client's three.
  expectTypeOf<Omit<ListedCapability, 'visibility'>>().toExtend<Omit<Capability, 'visibility'>>()
})

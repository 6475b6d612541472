import type { AgentCard } from '@a2a-js/sdk'
import { RuntimeError, type Turns, type User } from '#core'
import type { Context } from 'koa'
import { TurnsHandler } from './handler.ts'
import { loadSdk, type Sdk } from './sdk.ts'

/** What a request comes with. */
export interface Exchange {
  readonly user: User
  readonly turns: Turns
  readonly koa: Context
  readonly card: () => AgentCard
}

/** The version that a client speaks which names none, as the protocol has it. */
const unnamedVersion = '0.3'

/** Answers a request of JSON-RPC: with an object, or with a stream of them. */
export async function answerRpc(
  body: Record<string, unknown>,
  { user, turns, koa, card }: Exchange,
) {
  const sdk = await loadSdk()
  const failed = failing(sdk, body)
  const requestedVersion = koa.get('A2A-Version') || unnamedVersion
  const ownCard = card()
  try {
    sdk.validateVersion(requestedVersion, ownCard, 'JSONRPC')
  } catch (error) {
    return failed(error)
  }
  const handler = new TurnsHandler({ sdk, turns, user, koa, card: ownCard })
  const context = new sdk.ServerCallContext({ requestedVersion })
  const answer = await new sdk.JsonRpcTransportHandler(handler).handle(body, context)
  if (!(Symbol.asyncIterator in answer))
    return handler.fault === undefined ? answer : failed(handler.fault)
  const stream = answer[Symbol.asyncIterator]()
  let first: IteratorResult<unknown, void>
  try {
    first = await stream.next()
  } catch (error) {
    return failed(error)
  }
  return streamed(stream, first, failed)
}

/** The rest of a stream whose first object is known: what failed before it was answered otherwise. */
async function* streamed(
  stream: AsyncIterator<unknown, void>,
  first: IteratorResult<unknown, void>,
  failed: (error: unknown) => object,
): AsyncGenerator<unknown, void, void> {
  try {
    for (let next = first; !next.done; next = await stream.next()) yield next.value
  } catch (error) {
    yield failed(error)
  } finally {
    await stream.return?.()
  }
}

/** Statuses that the protocol has an error for; all others are those of every door. */
const known = new Set([400, 404, 410, 422])

/** Makes the answer of an error; throws where a status says more than the protocol can. */
function failing(sdk: Sdk, { id }: Record<string, unknown>) {
  const { TaskNotFoundError, RequestMalformedError } = sdk.errors
  return (fault: unknown) => {
    if (fault instanceof RuntimeError && !known.has(fault.status)) throw fault
    if (!(fault instanceof RuntimeError) && !isOfProtocol(fault)) throw fault
    const error =
      fault instanceof RuntimeError
        ? new (fault.status === 404 || fault.status === 410
            ? TaskNotFoundError
            : RequestMalformedError)(fault.message)
        : fault
    return {
      jsonrpc: '2.0',
      id: typeof id === 'string' || typeof id === 'number' ? id : null,
      error: sdk.JsonRpcTransportHandler.mapToJSONRPCError(error),
    }
  }
}

/** Whether an error is one of the package's own: their words are for whoever asked. */
const isOfProtocol = (error: unknown) =>
  error instanceof Error && error.name.endsWith('Error') && 'reason' in error

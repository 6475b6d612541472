import type { Operation } from '../operations/operations.ts'
import { CallError, grpc } from '../statuses.ts'
import type { Call, Metadata, StreamAnswer, Transport } from '../upstream/transport.ts'

/** An answer of the upstream as JSON, with the metadata that came along. */
export interface Answered {
  readonly json: string
  readonly metadata: Metadata
}

/** What a call carries beside its operation. */
export interface CallParts {
  readonly message: Uint8Array
  readonly metadata: Metadata
  /** Undefined: as long as the upstream takes. */
  readonly deadlineMs: number | undefined
  readonly signal: AbortSignal
}

/** Calls of the upstream, and which methods it turned out not to implement. */
export class Calls {
  readonly #transport: Transport
  readonly #unimplemented = new Set<string>()

  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** Methods to which the upstream answered UNIMPLEMENTED when a client last asked. */
  get unimplemented(): ReadonlySet<string> {
    return this.#unimplemented
  }

  /** Asks for one message. */
  async unary(operation: Operation, parts: CallParts): Promise<Answered> {
    try {
      const { message, metadata } = await this.#transport.unary(callOf(operation, parts))
      if (this.#unimplemented.size > 0) this.#unimplemented.delete(operation.path)
      return { json: operation.write(message), metadata }
    } catch (thrown) {
      if (thrown instanceof CallError && thrown.code === grpc.unimplemented)
        this.#unimplemented.add(operation.path)
      throw thrown
    }
  }

  /** Asks for a stream of messages. */
  stream(operation: Operation, parts: CallParts): StreamAnswer {
    return this.#transport.serverStream(callOf(operation, parts))
  }
}

function callOf({ path }: Operation, { message, metadata, deadlineMs, signal }: CallParts): Call {
  return {
    path,
    messages: [message],
    metadata,
    signal,
    ...(deadlineMs === undefined ? {} : { deadlineMs }),
  }
}

import { MethodOptions_IdempotencyLevel as Idempotency } from '@bufbuild/protobuf/wkt'
import type { Operation } from '../operations/operations.ts'
import type { HttpRule } from '../operations/http-rule.ts'
import { CallError, grpc } from '../statuses.ts'
import type { Call, Metadata, StreamAnswer, Transport, UnaryAnswer } from '../upstream/transport.ts'

/** An answer of the upstream as JSON, with its metadata. */
export interface Answered {
  readonly json: string
  readonly metadata: Metadata
}

/** The parts of a call beside its operation. */
export interface CallParts {
  readonly message: Uint8Array
  readonly metadata: Metadata
  /** The deadline of the call; undefined: none. */
  readonly deadlineMs: number | undefined
  readonly signal: AbortSignal
}

/** Calls the upstream, and remembers which methods the upstream does not implement. */
export class Calls {
  readonly #transport: Transport
  readonly #unimplemented = new Set<string>()
  /** What reflection has said: the methods that the upstream lacks, so that those it has again are told apart. */
  #lacking: ReadonlySet<string> = new Set()
  #changes = 0

  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** How often the set of unimplemented methods has changed. */
  get changes(): number {
    return this.#changes
  }

  /** Learns which of the served methods the upstream lacks, as it says itself by reflection. */
  learn(lacking: ReadonlySet<string>): void {
    for (const path of this.#lacking) if (!lacking.has(path)) this.#unimplemented.delete(path)
    for (const path of lacking) this.#unimplemented.add(path)
    this.#lacking = lacking
    this.#changes++
  }

  /** The methods whose last call the upstream answered with UNIMPLEMENTED, and those that reflection does not list. */
  get unimplemented(): ReadonlySet<string> {
    return this.#unimplemented
  }

  /** Calls a method that answers with one message, and writes the message as JSON. */
  async unary(operation: Operation, parts: CallParts): Promise<Answered> {
    const { message, metadata } = await this.ask(operation, parts)
    return { json: operation.write(message), metadata }
  }

  /** Calls a method that answers with one message. */
  async ask(operation: Operation, parts: CallParts): Promise<UnaryAnswer> {
    try {
      const answer = await this.#transport.unary(callOf(operation, parts))
      if (this.#unimplemented.size > 0 && this.#unimplemented.delete(operation.path))
        this.#changes++
      return answer
    } catch (thrown) {
      if (
        thrown instanceof CallError &&
        thrown.code === grpc.unimplemented &&
        !this.#unimplemented.has(operation.path)
      ) {
        this.#unimplemented.add(operation.path)
        this.#changes++
      }
      throw thrown
    }
  }

  /** Calls a method that answers with a stream of messages. */
  stream(operation: Operation, parts: CallParts): StreamAnswer {
    return this.#transport.serverStream(callOf(operation, parts))
  }
}

/** Whether a method only reads: because its binding is a GET, or because its descriptor says that it has no side effects. */
export const isSafe = ({ verb, method }: HttpRule): boolean =>
  verb === 'GET' || method.idempotency === Idempotency.NO_SIDE_EFFECTS

function callOf(
  { path, rule }: Operation,
  { message, metadata, deadlineMs, signal }: CallParts,
): Call {
  return {
    path,
    messages: [message],
    metadata,
    signal,
    isSafe: isSafe(rule),
    ...(deadlineMs === undefined ? {} : { deadlineMs }),
  }
}

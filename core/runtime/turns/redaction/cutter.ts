import { RuntimeError } from '../../../errors.ts'
import type { RunStore } from '../journal/store.ts'
import type { SessionCut } from '../events/watchers.ts'
import { cutReply } from './cut.ts'
import { untilEnded } from './until-ended.ts'

/** How long a write may take that comes to its end before its run is stopped: no tool may take longer. */
const longestWriteMs = 15 * 60_000

/** What cuts replies. */
export interface CutterOptions {
  readonly store: RunStore
  /** Stops a turn, also one that waits for a person. */
  abort(did: string, sessionId: string, requestId: string): Promise<boolean>
  /** Stops a run, wherever it is carried, once the writes have ended that its tools have begun. */
  stopAfterWrites(sessionId: string, runId: string): void
  /** Called when the reply is cut: whoever remembers the conversation has to read it again. */
  onCut(sessionId: string, cut: SessionCut): void
}

/** A reply as its user heard it. */
export interface Heard {
  readonly did: string
  readonly sessionId: string
  readonly runId: string
  readonly chars: number
  readonly finishWrites: boolean
}

/** Cuts replies where their users stopped listening. A run under way is stopped first, because it would say more. */
export class Cutter {
  readonly #options: CutterOptions

  constructor(options: CutterOptions) {
    this.#options = options
  }

  /** Resolves to whether words were cut off. Throws NOT_FOUND where the user has no such run in the session. */
  async cut({ did, sessionId, runId, chars, finishWrites }: Heard): Promise<boolean> {
    const { store, onCut } = this.#options
    const run = await store.find(runId)
    if (run?.did !== did || run.session_id !== sessionId)
      throw new RuntimeError('NOT_FOUND', `You have no run "${runId}" in this session.`)
    await this.#ended(run.root_id, { did, sessionId, finishWrites })
    const cut = await cutReply(store, { did, sessionId, rootId: run.root_id, runId, chars })
    if (cut) onCut(sessionId, { runId, requestId: run.request_id, ...cut })
    return cut !== undefined
  }

  async #ended(
    rootId: string,
    { did, sessionId, finishWrites }: Pick<Heard, 'did' | 'sessionId' | 'finishWrites'>,
  ): Promise<void> {
    const { store, abort, stopAfterWrites } = this.#options
    const openRun = () => store.openOf(sessionId, rootId)
    await untilEnded({
      isOpen: async () => (await openRun()) !== undefined,
      stop: async () => {
        const open = await openRun()
        if (open?.status === 'running' && finishWrites) stopAfterWrites(sessionId, open.id)
        else if (open) await abort(did, sessionId, open.request_id)
      },
      ...(finishWrites && { ms: longestWriteMs }),
      fault: 'The run has not ended yet, so its reply still stands.',
    })
  }
}

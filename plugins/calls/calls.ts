import { randomUUID } from 'node:crypto'
import {
  type Database,
  type Log,
  type Metrics,
  type Oracle,
  type PluginSessions,
  RuntimeError,
  type Turns,
} from '#core'
import type { environment } from './environment.ts'
import { Figures } from './figures.ts'
import { type Limited, Limits } from './limits.ts'
import type { Place, ToMedia } from './media/messages.ts'
import { portsOfCall } from './media/ports.ts'
import { Media } from './media/media.ts'
import { proofOf } from './signalling/proof.ts'
import { activeCall, demandKind, full, minutesSpent } from './refusals.ts'
import { answeredFingerprint, readOffer } from './signalling/sdp.ts'
import { iceServersFor, type IceServer, type Relay } from './signalling/turn.ts'
import type { ChosenSpeech } from './speech/chosen.ts'
import { consentFor, demandConsent } from './speech/consent.ts'
import type { Hearing, Voice } from './speech/port.ts'
import { CallRows, type NewCall, times } from './rows.ts'
import type { CallsTable, EndedBy } from './tables.ts'
import { Conversation } from './talking/conversation.ts'
import type { z } from 'zod'

type Env = { readonly [Name in keyof typeof environment]: z.output<(typeof environment)[Name]> }

/** What a page asks for. */
export interface WantedCall {
  readonly sessionId: string
  readonly callType: 'audio' | 'video'
  readonly sdp: string
  readonly agentVoice?: string | undefined
  readonly language?: string | undefined
  readonly consent?: string | undefined
  readonly replaces?: string | undefined
}

/** What calls need of the boot. */
export interface CallsBoot {
  readonly env: Env
  readonly db: Database
  readonly turns: Turns
  readonly sessions: Pick<PluginSessions, 'messages'>
  readonly oracle: Oracle
  readonly log: Log
  readonly metrics: Metrics
  readonly environment: string
  now(): Date
}

interface Live extends Limited {
  readonly id: string
}

/** How often a process says that it lives, and looks whether a call has to end. */
const beatMs = 1_500
/** How long the last frames take at most, when the process ends. */
const leavingMs = 150

/** The calls of this process, and the rows of all. */
export class Calls {
  readonly rows: CallRows
  readonly chosen: ChosenSpeech
  readonly env: Env
  readonly #boot: CallsBoot
  readonly #media = new Media()
  readonly #figures: Figures
  readonly #limits: Limits
  readonly #relay: Relay | undefined
  readonly #live = new Map<string, Live>()
  #opening = 0
  #placing: Promise<unknown> = Promise.resolve()
  /** Resolves once the calls that have ended are kept as such. */
  #ending: Promise<unknown> = Promise.resolve()
  #isClosing = false
  #beating: NodeJS.Timeout | undefined

  constructor(boot: CallsBoot, chosen: ChosenSpeech, relay: Relay | undefined) {
    this.#boot = boot
    this.#relay = relay
    this.#figures = new Figures(boot.metrics)
    this.rows = new CallRows({
      ...{ db: boot.db, log: boot.log, owner: randomUUID(), now: () => boot.now() },
      minutesPerDay: boot.env.CALLS_MINUTES_PER_DAY,
    })
    this.#limits = new Limits(this.rows, boot.env, this.#now)
    this.chosen = chosen
    this.env = boot.env
  }

  /** Answers an offer: the call stands once the page has the answer. */
  async open(did: string, wanted: WantedCall) {
    const { oracle, log } = this.#boot
    // Whoever is told that this process goes down calls again at once, and is to reach another one.
    if (this.#isClosing) throw full('The server goes down.', 1)
    const offer = readOffer(wanted.sdp)
    demandKind(wanted.callType, offer.hasVideo, this.env.CALLS_VIDEO === 'on')
    await this.#demandSession(did, wanted.sessionId)
    if (!oracle.key)
      throw new RuntimeError(
        'SIGNING_KEY_NOT_LOADED',
        'The oracle has no key to prove a call with.',
      )
    const before =
      wanted.replaces === undefined ? undefined : await this.#replaced(did, wanted.replaces)
    const consent = wanted.consent ?? before?.consent ?? null
    demandConsent(consentFor(this.chosen.now), consent)
    const id = randomUUID()
    const { row, minutesLeft } = await this.#takePlace(
      { id, did, sessionId: wanted.sessionId, type: wanted.callType, consent },
      before,
    )
    try {
      const conversation = this.#converse(row, wanted, before)
      const live: Live = {
        ...{ id, did, conversation, openedAt: performance.now() },
        ...{ connectedAt: undefined, lasting: undefined, isTold: false },
      }
      const answer = await this.#media.open(
        id,
        { sdp: offer.sdp, place: this.#place(), silenceMs: this.env.CALLS_SILENCE_MS },
        (message) => {
          if (message.type === 'connected') this.#connected(live)
          if (message.type === 'late') return this.#figures.late(message.frames)
          conversation.take(message)
        },
      )
      this.#live.set(id, live)
      this.#figures.begun(row.type, this.#live.size)
      this.#limits.begin(live, row.seconds_before, minutesLeft)
      this.#beat()
      void conversation.follow()
      const ends = {
        ...{ callId: id, sessionId: wanted.sessionId },
        ...{ offered: offer.fingerprint, answered: answeredFingerprint(answer) },
      }
      const expiresAt = new Date(row.created_at + times.pendingMs).toISOString()
      return { callId: id, sdp: answer, proof: proofOf(oracle, ends), expiresAt }
    } catch (error) {
      await this.rows.close(id, 'server')
      if (error instanceof RuntimeError) throw error
      log.warn({ err: error }, 'A call could not be answered')
      throw full('No call can be answered just now.', 5, error)
    } finally {
      this.#opening--
    }
  }

  /**
   * Takes a place for a call. One asks after another, so that the last place is given once. A call that is replaced ends here: one
   * that is refused leaves it as it is.
   */
  #takePlace(call: NewCall, before: CallsTable | undefined) {
    const taken = this.#placing.then(async () => {
      const minutesLeft = await this.rows.minutesLeft(call.did)
      this.#demandPlace(minutesLeft, before && this.#live.has(before.id) ? 1 : 0)
      if (before) await this.end(before.id, 'replaced')
      const row = await this.rows.take(call, before, this.env.CALLS_PER_USER)
      if (!row) throw await activeCall(this.rows, call)
      this.#opening++
      return { row, minutesLeft }
    })
    this.#placing = taken.catch(() => undefined)
    return taken
  }

  #connected(live: Live): void {
    live.connectedAt = performance.now()
    this.#figures.connected((live.connectedAt - live.openedAt) / 1_000)
    void this.rows.begin(live.id)
  }

  /** What a caller's page needs to call through the operator's relay. */
  iceServers(did: string): IceServer[] {
    return iceServersFor(this.#relay, did, this.#boot.now())
  }

  /** Ends a call, wherever it is carried: its process hears of it within two seconds. */
  async end(id: string, by: EndedBy): Promise<void> {
    const live = this.#live.get(id)
    live?.conversation.end(by)
    await this.rows.close(id, by)
  }

  /** The agent hangs up once it has said what it is saying. */
  hangUp(id: string): boolean {
    const live = this.#live.get(id)
    live?.conversation.endAfterwards('agent')
    return live !== undefined
  }

  /** What another plugin brings to hear or to speak with, from its `setup`. */
  speech(brought: { readonly hearing?: Hearing; readonly voice?: Voice }): void {
    this.chosen.bring(brought)
  }

  /** A picture of the camera as a WebP file, or why there is none. */
  async look(id: string): Promise<Uint8Array | 'elsewhere' | 'off'> {
    if (!this.#live.has(id)) return 'elsewhere'
    return (await this.#media.look(id)) ?? 'off'
  }

  /** Imports what calls need before the first one does. */
  warm(): void {
    this.#media.warm()
  }

  /** Whether what calls need is imported. */
  get isWarm(): boolean {
    return this.#media.isWarm
  }

  /** How calls are, for `/health`. Throws what is wrong. */
  check(): string | undefined {
    const fault = this.#media.fault ?? this.chosen.fault
    if (fault !== undefined) throw new Error(fault)
    return this.#figures.inWords
  }

  async close(): Promise<void> {
    this.#isClosing = true
    clearInterval(this.#beating)
    const live = [...this.#live.values()]
    for (const { conversation } of live) conversation.move()
    await this.#ending
    // The pages are told before the connections end.
    if (live.length > 0) await new Promise((resolve) => setTimeout(resolve, leavingMs))
    await this.#media.end()
  }

  #converse(
    row: CallsTable,
    { agentVoice, language }: WantedCall,
    before: CallsTable | undefined,
  ): Conversation {
    const { id, did, session_id: sessionId } = row
    const { turns, log } = this.#boot
    const { hearing, voice } = this.chosen.now
    return new Conversation({
      call: {
        id,
        did,
        sessionId,
        type: row.type,
        ...(language && { language }),
        ...(agentVoice && { voice: agentVoice }),
      },
      ...{ turns, log },
      ...{ hearing: hearing.port, hearingName: hearing.by, voice: voice.port, voiceName: voice.by },
      ...{ silenceMs: this.env.CALLS_SILENCE_MS, idleMs: this.env.CALLS_IDLE_SECONDS * 1_000 },
      ...(before?.spoken_run && {
        heardBefore: { runId: before.spoken_run, chars: before.spoken_chars },
      }),
      tell: (message) => this.#tell({ ...message, call: id } as ToMedia),
      onHeard: () => void this.#kept(id),
      onEnd: (by, silentMs) => {
        this.#ending = Promise.all([this.#ending, this.#ended(id, by, silentMs)])
      },
    })
  }

  #tell(message: ToMedia): void {
    try {
      this.#media.tell(message)
    } catch (error) {
      this.#boot.log.warn({ err: error }, 'The thread of sound cannot be told')
    }
  }

  /** Rejects with `NOT_FOUND` where the caller has no such session. */
  async #demandSession(did: string, session: string): Promise<void> {
    await this.#boot.sessions.messages({ user: { did }, session, limit: 1 })
  }

  async #replaced(did: string, id: string): Promise<CallsTable> {
    const row = await this.rows.own(did, id)
    if (row.ended_by === null || row.ended_by === 'lost' || row.ended_by === 'server') return row
    // A page whose network is away may have called again without ever hearing of it: that call stands for this one.
    const next = row.ended_by === 'replaced' ? await this.rows.neverBegun(row) : undefined
    if (next) return next
    throw new RuntimeError('CONFLICT', `That call has ended: ${row.ended_by}.`, {
      hint: 'Begin a new call.',
    })
  }

  #demandPlace(minutesLeft: number, leaving: number): void {
    const {
      CALLS_MAX,
      CALLS_PORTS: [from, to],
      CALLS_MINUTES_PER_DAY,
    } = this.env
    const all = Math.min(CALLS_MAX, Math.floor((to - from + 1) / portsOfCall(this.#place())))
    if (this.#live.size + this.#opening - leaving >= all)
      throw full('All lines of the oracle are taken.', 60)
    if (minutesLeft <= 0) throw minutesSpent(CALLS_MINUTES_PER_DAY, this.#now())
  }

  async #ended(id: string, by: EndedBy, silentMs: number): Promise<void> {
    const live = this.#live.get(id)
    if (!this.#live.delete(id) || !live) return this.rows.close(id, by)
    const { connectedAt = performance.now(), conversation } = live
    this.#figures.ended(by, this.#live.size, {
      seconds: (performance.now() - connectedAt) / 1_000,
      ...{ utterances: conversation.utterances, interruptions: conversation.interruptions },
    })
    // The last frame, which says that it is over, goes out before the connection closes.
    setTimeout(() => this.#media.close(id), 200).unref()
    await this.#keep(live)
    // The minutes of a call that is lost are those up to its last sign of life.
    await this.rows.close(id, by, Math.round(silentMs))
  }

  async #kept(id: string): Promise<void> {
    const live = this.#live.get(id)
    if (live) await this.#keep(live)
  }

  /** What cannot be kept now is kept with the next beat. */
  #keep({ id, conversation }: Live): Promise<void> {
    return this.rows
      .keep(id, conversation)
      .catch((error: unknown) => this.#boot.log.warn({ err: error }, 'A call could not be kept'))
  }

  /** While calls are under way: says that this process lives, keeps how far each was heard, and hears what ended elsewhere. */
  #beat(): void {
    this.#beating ??= setInterval(() => {
      if (this.#live.size === 0) {
        clearInterval(this.#beating)
        this.#beating = undefined
        return
      }
      void this.#beatOnce().catch((error: unknown) =>
        this.#boot.log.warn({ err: error }, 'Calls could not be kept; trying again'),
      )
    }, beatMs)
    this.#beating.unref()
  }

  async #beatOnce(): Promise<void> {
    this.#limits.look([...this.#live.values()])
    if (this.#live.size === 0) return
    const ended = await this.rows.beat([...this.#live.keys()])
    for (const { id, conversation } of [...this.#live.values()])
      await this.rows.keep(id, conversation)
    for (const { id, ended_by } of ended) this.#live.get(id)?.conversation.end(ended_by ?? 'server')
    await this.#limits.lookTogether([...this.#live.values()])
  }

  #place(): Place {
    const { CALLS_PORTS: ports, CALLS_ADDRESS: address } = this.env
    return { ports, ...(address && { address }), isLocal: this.#boot.environment !== 'production' }
  }

  #now = () => this.#boot.now().getTime()
}

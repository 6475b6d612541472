import { type FollowedEvent, RuntimeError } from '#core'
import type { FromMedia } from '../media/messages.ts'
import type { EndedBy } from '../tables.ts'
import { Ears } from './ears.ts'
import { type PageFrame, readFrame } from './frames.ts'
import { Line } from './line.ts'
import {
  type Phrases,
  isQuestion,
  mayBecome,
  phrasesIn,
  plainWords,
  saysOnly,
  wordsOf,
} from './phrases.ts'
import type { ConversationOptions } from './options.ts'
import { Quiet } from './quiet.ts'
import { Runs, type Told } from './runs.ts'
import type { Piece } from './sentences.ts'
import { Silencing } from './silencing.ts'
import { type Heard, Speaker } from './speaker.ts'
import { spokenText } from './spoken-text.ts'
import { startTurn } from './start-turn.ts'
import { toSay } from './to-say.ts'
import { cutReplies, refuse, turnNameOf } from './turns-of-call.ts'

/** What goes on without being a word is passed over after so long; a tool that is slower is excused; silence after "and" is longer. */
const waits = { falseAlarmMs: 800, momentMs: 2_000, moreMs: 600 }

/** One call, as a conversation: what is heard becomes a turn of the session, and what the session says is said. */
export class Conversation {
  readonly #options: ConversationOptions
  readonly #phrases: Phrases
  readonly #line: Line
  readonly #speaker: Speaker
  readonly #following = new AbortController()
  readonly #runs = new Runs()
  readonly #ears: Ears
  #ownNumber = 0
  #alarm: NodeJS.Timeout | undefined
  #waiting: { readonly runId: string } | undefined
  #isGreeted = false
  readonly #quiet: Quiet
  #endsAfterwards: EndedBy | undefined
  #isEnded = false
  /** Resolves once every reply that was interrupted ends where it was heard, and everything that was said has begun. */
  #before: Promise<unknown> = Promise.resolve()
  readonly #silencing = new Silencing()
  /** What is being said now has interrupted the agent before all of its words were known. */
  #hasInterrupted = false
  utterances = 0
  interruptions = 0
  /** How far the reply was heard that is being said. */
  heard: Heard | undefined

  constructor(options: ConversationOptions) {
    const { call, voice, voiceName, log, tell } = options
    this.#options = options
    this.#phrases = phrasesIn(call.language)
    this.heard = options.heardBefore
    this.#line = new Line((text) => tell({ type: 'send', text }))
    this.#quiet = new Quiet(options.idleMs, {
      isBusy: () => this.#speaker.isBusy || !this.#runs.areOver || this.#waiting !== undefined,
      ask: () => this.announce(this.#phrases.stillThere),
      giveUp: () => {
        this.announce(this.#phrases.goodbye)
        this.endAfterwards('idle')
      },
    })
    this.#ears = new Ears({
      ...{ hearing: options.hearing, language: call.language, signal: this.#following.signal },
      isSpeaking: () => this.#speaker.isBusy,
      begun: () => this.#quiet.broken(),
      partial: (text) => this.#partial(text),
      understood: (text, name, isOver) => this.#words(text, name, isOver),
      nothing: () => this.#release(),
      failed: (error) => this.#notUnderstood(error),
    })
    this.#speaker = new Speaker({
      ...{ voice, log, isByPage: voiceName === 'browser' },
      words: {
        ...(call.voice && { voice: call.voice }),
        ...(call.language && { language: call.language }),
      },
      play: tell,
      tell: (type) => tell({ type }),
      sayByPage: (id, text) => this.#line.send({ type: 'say', id, text }),
      onBegun: ({ runId, from }) => {
        if (runId !== undefined && runId !== this.heard?.runId) this.#isHeardTo(runId, from)
      },
      onHeard: ({ runId, to }) => {
        if (runId !== undefined) this.#isHeardTo(runId, to)
      },
      onSilent: () => this.#silent(),
      onFailed: (error) => {
        log.warn({ err: error }, 'A voice failed')
        this.#line.notice('VOICE_FAILED', 'The voice is not there just now; please read along.')
      },
    })
  }

  /** Follows the session until the call ends. */
  async follow(): Promise<void> {
    const { signal } = this.#following
    for await (const told of toSay(this.#options, signal)) this.#hear(told)
    if (!signal.aborted) this.end('session')
  }

  /** What the thread of sound tells. */
  take(message: FromMedia): void {
    if (message.type === 'dropped') return this.#silencing.stands(message)
    if (this.#isEnded) return
    if (message.type === 'frame') this.#frame(readFrame(message.text))
    else if (message.type === 'over') this.#hold()
    else if (message.type === 'sure') this.#speaksOver()
    else if (message.type === 'passed') this.#release()
    else if (message.type === 'played') this.#speaker.played(message)
    else if (message.type === 'lost') this.end('lost', message.silentMs)
    else if (message.type === 'hostile') {
      this.#options.log.warn({ reason: message.reason }, 'A call was ended by what its page sent')
      this.end('server')
    } else this.#ears.take(message)
  }

  /** Ends the call once what is being said was heard. */
  endAfterwards(by: EndedBy): void {
    this.#endsAfterwards = by
    if (!this.#speaker.isBusy && this.#runs.areOver) this.end(by)
  }

  /** Says something of the agent's own. */
  announce(text: string): void {
    if (this.#isEnded) return
    this.#line.caption(`own-${++this.#ownNumber}`, 'agent', text)
    this.#speaker.say({ runId: undefined, from: 0, to: 0, text })
    this.#line.show('speaking')
  }

  /** A fact that the page shows, and the sentence that is said of it. */
  minuteLeft(): void {
    this.announce(this.#phrases.minuteLeft)
  }

  /** This process goes down: the page is to call again, and another process says the rest. */
  move(): void {
    this.#line.notice('MOVING', 'The server goes down; the call goes on elsewhere.')
    this.end('server')
  }

  /** Ends the call; `silentMs`: for how long its page has given no sign of life. */
  end(by: EndedBy, silentMs = 0): void {
    if (this.#isEnded) return
    this.#line.end(by)
    this.#isEnded = true
    this.#quiet.close()
    clearTimeout(this.#alarm)
    this.#runs.close()
    this.#following.abort()
    this.#options.onEnd(by, silentMs)
  }

  #frame(frame: PageFrame | undefined): void {
    if (!frame) return
    if ('heard' in frame) this.#speaker.standsAt(frame.heard)
    const { call, voiceName, hearingName } = this.#options
    if (frame.type === 'hello' && !this.#isGreeted) {
      this.#isGreeted = true
      this.#line.open({ type: 'ready', callId: call.id, voice: voiceName, hearing: hearingName })
    } else if (frame.type === 'say')
      this.#words(frame.text, `say:${frame.id}`, frame.by === 'recognized' && this.#ears.isOver)
    else if (frame.type === 'partial') this.#partial(frame.text)
    else if (frame.type === 'stop') this.#interrupt()
    else if (frame.type === 'spoken') this.#speaker.spoken(frame.id, frame.chars)
    else if (frame.type === 'bye') this.end('user')
  }

  #notUnderstood(error: unknown): void {
    this.#options.log.warn({ err: error }, 'Speech could not be understood')
    this.#line.notice('HEARING_FAILED', this.#phrases.cannotHear)
    this.announce(this.#phrases.cannotHear)
  }

  #partial(text: string): void {
    const words = wordsOf(text)
    if (words === '') return
    this.#quiet.broken()
    this.#line.caption('partial', 'you', text, false)
    const last = words.split(' ').at(-1) ?? ''
    const goesOn = this.#phrases.goesOn.has(last) || text.trimEnd().endsWith(',')
    const { silenceMs, tell } = this.#options
    tell({ type: 'silence', ms: silenceMs + (goesOn ? waits.moreMs : 0) })
    if (!mayBecome(this.#phrases.nods, words)) this.#speaksOver()
  }

  #speaksOver(): void {
    this.#hasInterrupted ||= this.#interrupt()
  }

  /** What the person said, `isOver` the agent, or typed: a turn of the session, unless it was a nod, or only to stop. */
  #words(said: string, name: string, isOver: boolean): void {
    const text = plainWords(said)
    const words = wordsOf(text)
    if (words === '') return
    this.#quiet.broken(true)
    const { nods, stops, refusals, decideFirst } = this.#phrases
    const isNod = saysOnly(nods, words)
    // A nod that has silenced the agent is answered: nothing else would make it go on.
    if (isNod && !this.#hasInterrupted && this.#isOnlyHeard(isOver)) return this.#release()
    const wasSpeaking = this.#speaker.isBusy || this.#hasInterrupted
    this.#hasInterrupted = false
    this.utterances++
    this.#line.caption(name, 'you', text)
    if (this.#waiting && saysOnly(refusals, words)) return this.#reject(this.#waiting.runId)
    if ((this.#interrupt() || wasSpeaking) && saysOnly(stops, words)) return
    if (this.#waiting) this.announce(decideFirst)
    // Anybody in the room can say "yes": it decides nothing, and is nothing to answer either.
    if (!this.#waiting || !isNod) this.#start(text, name)
  }

  /** Whether a nod says only that somebody listens. Understood after the agent's last word, it may answer a question. */
  #isOnlyHeard(isOver: boolean): boolean {
    if (this.#speaker.isBusy) return true
    return isOver && !this.#waiting && !isQuestion(this.#runs.last?.sentences.text ?? '')
  }

  #start(text: string, name: string): void {
    this.#line.show('thinking')
    const beginning = this.#runs.begin(turnNameOf(this.#options, name))
    const started = startTurn({
      ...{ options: this.#options, runs: this.#runs, beginning, text, before: this.#before },
      ...{ isPatient: this.#waiting !== undefined, signal: this.#following.signal },
      end: (run) => this.#endRun(run),
    }).catch((error: unknown) => {
      const { code, message } =
        error instanceof RuntimeError ? error : { code: 'INTERNAL', message: 'That did not work.' }
      this.#line.notice(code, message)
      if (!beginning.isCut) this.announce(message)
    })
    this.#before = Promise.all([this.#before, started])
  }

  #reject(runId: string): void {
    refuse(this.#options, runId)
    this.announce(this.#phrases.rejected)
  }

  #hear(told: FollowedEvent): void {
    const run = this.#runs.of(told.runId, told.requestId)
    if (told.event === 'run') {
      if (told.data.partialLength !== undefined) run.sentences.backTo(told.data.partialLength)
      run.isOver = false
      if (!this.heard) this.#isHeardTo(run.id, 0)
      // Nothing begins in a session that waits: somebody has decided, or has ended what waited.
      this.#decided()
      if (!this.#speaker.isBusy && !run.isCut) this.#line.show('thinking')
    } else if (told.event === 'message') this.#say(run, run.sentences.push(told.data.content))
    else if (told.event === 'tool_call') {
      this.#line.send({ type: 'tool', name: told.data.toolName, status: told.data.status })
      clearTimeout(run.moment)
      if (told.data.status === 'isRunning')
        run.moment = setTimeout(() => {
          if (!this.#speaker.isBusy && !run.isCut) this.announce(this.#phrases.moment)
        }, waits.momentMs)
    } else if (told.event === 'interrupt' && !run.isCut) this.#ask(run, told.data)
    else if (told.event === 'error' && !run.isCut && !this.#wasOver(run)) {
      this.#line.notice(told.data.code, told.data.error)
      this.announce(told.data.error)
    } else if (told.event === 'done') {
      const { status } = told.data
      const hasWaited = this.#waiting?.runId === run.id && status !== 'waiting'
      if (hasWaited) this.#decided()
      // Somebody has stopped it, here or elsewhere: who is told to stop falls silent.
      if (status === 'aborted') this.#stopped(run, hasWaited)
      this.#over(run)
    }
  }

  #stopped(run: Told, hasWaited: boolean): void {
    if (run.isCut) return
    run.isCut = true
    if (hasWaited || this.#speaker.runs.has(run.id)) void this.#silence().then(() => this.#silent())
    else if (!this.#speaker.isBusy) this.#silent()
  }

  /** The run that waited goes on, or has ended: somebody has decided, here or elsewhere. */
  #decided(): void {
    if (!this.#waiting) return
    this.#line.send({ type: 'decided', runId: this.#waiting.runId })
    this.#waiting = undefined
  }

  #ask(run: Told, data: Extract<FollowedEvent, { event: 'interrupt' }>['data']): void {
    const { toolName, args, toolCallId, question } = data
    const asked = question !== undefined && { question }
    const { wish, decide } = this.#phrases
    this.#waiting = { runId: run.id }
    this.#line.send({ type: 'approval', runId: run.id, toolName, args, toolCallId, ...asked })
    this.announce(`${question ?? wish(toolName)} ${decide}`)
  }

  #over(run: Told): void {
    clearTimeout(run.moment)
    run.isOver = true
    if (!run.isCut) this.#say(run, run.sentences.end())
    // A reply that was interrupted ends once it is cut.
    if (!this.#speaker.isBusy && !run.isCut) this.#silent()
    this.#runs.tidy()
  }

  #say(run: Told, pieces: readonly Piece[]): void {
    if (run.isCut) return
    const { heardBefore } = this.#options
    for (const { text, from, to } of pieces) {
      const spoken = spokenText(text, run.isCode)
      run.isCode = spoken.isCode
      if (heardBefore?.runId === run.id && to <= heardBefore.chars) continue
      this.#line.caption(`${run.id}:${from}`, 'agent', text)
      this.#speaker.say({ runId: run.id, from, to, text: spoken.text })
      if (!this.#speaker.isHeld) this.#line.show('speaking')
    }
  }

  #hold(): void {
    if (!this.#speaker.isBusy) return
    this.#speaker.hold()
    this.#line.send({ type: 'hold' })
    this.#line.show('held')
    clearTimeout(this.#alarm)
    this.#alarm = setTimeout(() => this.#release(), waits.falseAlarmMs)
  }

  /** It was a cough, or a nod: on from the beginning of the sentence. */
  #release(): void {
    clearTimeout(this.#alarm)
    if (!this.#speaker.isHeld) return
    this.#speaker.goOn()
    this.#line.send({ type: 'go' })
    // The last word may have gone out just before the cough.
    if (this.#speaker.isBusy) this.#line.show('speaking')
    else this.#silent()
  }

  /** The person has the word: what is said ends, and what was not heard is no part of the conversation. */
  #interrupt(): boolean {
    clearTimeout(this.#alarm)
    const open = this.#runs.interrupt(this.#speaker.runs, this.#waiting?.runId)
    const isHeard = this.#speaker.isBusy && !this.#silencing.isUnderWay
    // What is said while a person is asked waits for the decision.
    const isBeginning = !this.#waiting && this.#runs.cutBeginnings()
    if (!isHeard && !isBeginning && open.length === 0) return false
    this.interruptions++
    this.#line.send({ type: 'hold' })
    this.#line.show('held')
    const cut = this.#silence().then(() => cutReplies(this.#options, open, this.heard))
    // The next turn, and whoever looks at the history once the agent listens, find the reply ended.
    this.#before = Promise.all([this.#before, cut]).then(() => {
      if (this.#line.state === 'held' && !this.#speaker.isHeld) this.#silent()
    })
    return true
  }

  async #silence(): Promise<void> {
    const place = await this.#silencing.place(() => {
      this.#speaker.quiet()
      this.#options.tell({ type: 'drop', ...this.#speaker.stands })
    })
    this.heard = this.#speaker.drop(place) ?? this.heard
  }

  /** Ends a run that was spoken over before it was heard of. */
  async #endRun(run: Told): Promise<void> {
    this.#runs.silence(run)
    if (this.#speaker.runs.has(run.id)) await this.#silence()
    await cutReplies(this.#options, [run], this.heard)
  }

  /** In the call that this one replaces all of the run was said: the words of its end, too. */
  #wasOver({ id, sentences }: Told): boolean {
    const { heardBefore } = this.#options
    return heardBefore?.runId === id && heardBefore.chars > sentences.text.length
  }

  #isHeardTo(runId: string, chars: number): void {
    if (this.heard?.runId === runId && this.heard.chars === chars) return
    this.heard = { runId, chars }
    this.#options.onHeard()
  }

  #silent(): void {
    if (this.#endsAfterwards && this.#runs.areOver) return this.end(this.#endsAfterwards)
    // A call that replaces this one has nothing of it to say.
    const last = this.#runs.areOver ? this.#runs.last : undefined
    if (last && !this.#waiting) this.#isHeardTo(last.id, last.sentences.text.length + 1)
    if (this.#waiting) this.#line.show('waiting')
    else this.#line.show(this.#runs.areOver ? 'listening' : 'thinking')
    this.#quiet.broken()
  }
}

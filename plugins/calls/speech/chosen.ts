import { RuntimeError } from '#core'
import { isOwn, type Speech, type SpeechEnv, speechOf } from './choosing.ts'
import type { Hearing, Voice } from './port.ts'
import type { Fetch } from './service.ts'
import { SpeechWatch } from './watching.ts'

const plainName = /^[a-z0-9][a-z0-9-]{0,63}$/

/** What hears and what speaks in calls: what the variables name, of this plugin or of another. */
export class ChosenSpeech {
  readonly #env: SpeechEnv
  readonly #fetch: Fetch
  readonly #watch = new SpeechWatch()
  readonly #brought = { hearing: new Map<string, Hearing>(), voice: new Map<string, Voice>() }
  #chosen: Speech | undefined
  #fault: string | undefined

  constructor(env: SpeechEnv, fetch: Fetch) {
    this.#env = env
    this.#fetch = fetch
  }

  /** Whether nothing of another plugin has to be waited for. */
  get isOwn(): boolean {
    return isOwn(this.#env)
  }

  /** What another plugin brings; its name is what CALLS_HEARING or CALLS_VOICE says to choose it. */
  bring({ hearing, voice }: { readonly hearing?: Hearing; readonly voice?: Voice }): void {
    if (hearing) put(this.#brought.hearing, hearing, 'CALLS_HEARING')
    if (voice) put(this.#brought.voice, voice, 'CALLS_VOICE')
  }

  /** Finds what the variables name. Throws `ENV_INVALID` with the variable and what to do. */
  async choose(): Promise<void> {
    try {
      const { hearing, voice } = await speechOf({
        ...{ env: this.#env, fetch: this.#fetch, brought: this.#brought },
      })
      this.#chosen = {
        hearing: { ...hearing, ...(hearing.port && { port: this.#watch.hearing(hearing.port) }) },
        voice: { ...voice, ...(voice.port && { port: this.#watch.voice(voice.port) }) },
      }
    } catch (error) {
      this.#fault = error instanceof Error ? error.message : String(error)
      throw new RuntimeError('ENV_INVALID', this.#fault)
    }
  }

  /** What hears and speaks. Throws while it is not known. */
  get now(): Speech {
    if (this.#chosen) return this.#chosen
    throw new RuntimeError('PLUGIN_FAILED', this.#fault ?? 'The speech of calls is not chosen yet.')
  }

  /** What is wrong with speech; undefined where nothing is. */
  get fault(): string | undefined {
    return this.#fault ?? this.#watch.fault
  }
}

function put<Port extends { readonly name: string }>(
  known: Map<string, Port>,
  port: Port,
  variable: string,
): void {
  if (plainName.test(port.name) && !known.has(port.name)) return void known.set(port.name, port)
  throw new RuntimeError(
    'ENV_INVALID',
    `A plugin brings speech named "${port.name}", which ${variable} cannot choose.`,
    { hint: 'Take a name of small letters, digits and -, which no other plugin has.' },
  )
}

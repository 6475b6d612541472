import { access, constants } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { publicSpeech } from '../environment.ts'
import { espeakVoice, hearingByCommand, voiceByCommand, type Command } from './command.ts'
import { hearingByService } from './openai-hearing.ts'
import { voiceByService } from './openai-voice.ts'
import type { Hearing, Voice } from './port.ts'
import type { Fetch, SpeechService } from './service.ts'

/** Where sound goes: the device of the person, this server, or somebody else. */
export type Where = 'device' | 'server' | 'service'

/** Who hears, or who speaks; without a port it is the page, or nobody. */
export interface SpeechEnd<Port> {
  readonly by: string
  readonly where: Where
  readonly name: string
  readonly port?: Port
}

/** What hears and what speaks in calls, as `GET /calls` tells it. */
export interface Speech {
  readonly hearing: SpeechEnd<Hearing>
  readonly voice: SpeechEnd<Voice>
}

/** The variables of speech. */
export interface SpeechEnv {
  readonly CALLS_HEARING: string
  readonly CALLS_VOICE: string
  readonly CALLS_HEARING_COMMAND?: Command | undefined
  readonly CALLS_VOICE_COMMAND?: Command | undefined
  readonly CALLS_SPEECH_URL: string
  readonly CALLS_SPEECH_KEY?: string | undefined
  readonly CALLS_HEARING_MODEL: string
  readonly CALLS_VOICE_MODEL: string
  readonly CALLS_VOICE_NAME: string
}

/** What other plugins bring, by the names that the variables may choose. */
export interface Brought {
  readonly hearing: ReadonlyMap<string, Hearing>
  readonly voice: ReadonlyMap<string, Voice>
}

interface Choice {
  readonly env: SpeechEnv
  readonly fetch: Fetch
  readonly brought: Brought
  readonly path?: string
}

const own = {
  hearing: ['browser', 'typed', 'command', 'openai'],
  voice: ['auto', 'espeak', 'browser', 'command', 'openai', 'none'],
} as const

/** Whether both variables name what this plugin has of its own. */
export const isOwn = ({ CALLS_HEARING, CALLS_VOICE }: SpeechEnv): boolean =>
  own.hearing.some((by) => by === CALLS_HEARING) && own.voice.some((by) => by === CALLS_VOICE)

/** Finds what the variables name. Throws a sentence that names the variable that is missing. */
export async function speechOf(choice: Choice): Promise<Speech> {
  await demandProgram('CALLS_HEARING', choice)
  await demandProgram('CALLS_VOICE', choice)
  return { hearing: hearingOf(choice), voice: await voiceOf(choice) }
}

function hearingOf({ env, fetch, brought }: Choice): Speech['hearing'] {
  const { CALLS_HEARING: by, CALLS_HEARING_COMMAND: command } = env
  if (by === 'browser' || by === 'typed') return { by, where: 'device', name: by }
  if (by === 'openai') {
    const service = serviceOf('CALLS_HEARING', env, fetch)
    return ended(by, hearingByService(service, env.CALLS_HEARING_MODEL))
  }
  if (by === 'command') {
    if (!command)
      throw new Error('CALLS_HEARING=command needs CALLS_HEARING_COMMAND, a JSON array.')
    return ended(by, hearingByCommand(command[0], command))
  }
  const port = brought.hearing.get(by)
  if (!port) throw unknown('CALLS_HEARING', by, [...own.hearing, ...brought.hearing.keys()])
  return ended(by, port)
}

async function voiceOf(choice: Choice): Promise<Speech['voice']> {
  const { env, fetch, brought, path = process.env.PATH ?? '' } = choice
  const { CALLS_VOICE: by, CALLS_VOICE_COMMAND: command } = env
  if (by === 'none' || by === 'browser') return { by, where: 'device', name: by }
  if (by === 'openai') {
    const service = serviceOf('CALLS_VOICE', env, fetch)
    const { CALLS_VOICE_MODEL: model, CALLS_VOICE_NAME: name } = env
    return ended(by, voiceByService(service, { model, name }))
  }
  if (by === 'command') {
    if (!command) throw new Error('CALLS_VOICE=command needs CALLS_VOICE_COMMAND, a JSON array.')
    return ended(by, voiceByCommand(command[0], command))
  }
  if (by !== 'auto' && by !== 'espeak') {
    const port = brought.voice.get(by)
    if (!port) throw unknown('CALLS_VOICE', by, [...own.voice, ...brought.voice.keys()])
    return ended(by, port)
  }
  const program = await programOf('espeak-ng', path)
  if (program) return ended('espeak', espeakVoice(program))
  if (by === 'espeak')
    throw new Error(
      'CALLS_VOICE=espeak, but espeak-ng is not on the PATH. Install it, or set CALLS_VOICE=browser.',
    )
  return { by: 'browser', where: 'device', name: 'browser' }
}

/** A program that is not there is told at boot, and not in the first call. */
async function demandProgram(
  variable: 'CALLS_HEARING' | 'CALLS_VOICE',
  { env, path = process.env.PATH ?? '' }: Choice,
): Promise<void> {
  const [program] = env[`${variable}_COMMAND`] ?? []
  if (env[variable] !== 'command' || program === undefined) return
  const isThere = program.includes('/')
    ? await access(program, constants.X_OK).then(
        () => true,
        () => false,
      )
    : (await programOf(program, path)) !== undefined
  if (!isThere)
    throw new Error(
      `${variable}_COMMAND names the program ${program}, which is not there. Install it, or name another one.`,
    )
}

const ended = <Port extends Hearing | Voice>(by: string, port: Port): SpeechEnd<Port> => ({
  ...{ by, port },
  ...{ where: port.where, name: port.name },
})

function serviceOf(variable: string, env: SpeechEnv, fetch: Fetch): SpeechService {
  const { CALLS_SPEECH_URL: url, CALLS_SPEECH_KEY: key } = env
  if (url === publicSpeech && key === undefined)
    throw new Error(
      `${variable}=openai needs CALLS_SPEECH_KEY. The key of a model is not used for speech: set it to what may hear.`,
    )
  return { url, key, fetch }
}

const unknown = (variable: string, by: string, names: readonly string[]) =>
  new Error(`${variable} is "${by}", which nothing brings; there are ${names.join(', ')}.`)

/** Where a program lies on the PATH. */
async function programOf(name: string, path: string): Promise<string | undefined> {
  for (const folder of path.split(delimiter).slice(0, 200)) {
    const place = join(folder, name)
    try {
      await access(place, constants.X_OK)
      return place
    } catch {
      continue
    }
  }
  return undefined
}

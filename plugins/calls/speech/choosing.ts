import { access, constants } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { espeakVoice, hearingByCommand, voiceByCommand, type Command } from './command.ts'
import type { Hearing, Voice } from './port.ts'

/** Where sound goes: the device of the person, this server, or somebody else. */
export type Where = 'device' | 'server' | 'service'

/** What hears and what speaks in calls, as `GET /calls` tells it. */
export interface Speech {
  readonly hearing: {
    readonly by: string
    readonly where: Where
    readonly name: string
    readonly port?: Hearing
  }
  readonly voice: {
    readonly by: string
    readonly where: Where
    readonly name: string
    readonly port?: Voice
  }
}

interface Wanted {
  readonly CALLS_HEARING: 'browser' | 'command' | 'typed'
  readonly CALLS_VOICE: 'auto' | 'espeak' | 'browser' | 'command' | 'none'
  readonly CALLS_HEARING_COMMAND?: Command | undefined
  readonly CALLS_VOICE_COMMAND?: Command | undefined
}

/** Finds what the variables name. Throws a sentence that names the variable that is missing. */
export async function speechOf(env: Wanted, path = process.env.PATH ?? ''): Promise<Speech> {
  await demandProgram('CALLS_HEARING', env, path)
  await demandProgram('CALLS_VOICE', env, path)
  return { hearing: hearingOf(env), voice: await voiceOf(env, path) }
}

function hearingOf({
  CALLS_HEARING: by,
  CALLS_HEARING_COMMAND: command,
}: Wanted): Speech['hearing'] {
  if (by !== 'command') return { by, where: 'device', name: by }
  if (!command) throw new Error('CALLS_HEARING=command needs CALLS_HEARING_COMMAND, a JSON array.')
  const port = hearingByCommand(command[0], command)
  return { by, where: 'server', name: port.name, port }
}

async function voiceOf(env: Wanted, path: string): Promise<Speech['voice']> {
  const { CALLS_VOICE: by, CALLS_VOICE_COMMAND: command } = env
  if (by === 'none' || by === 'browser') return { by, where: 'device', name: by }
  if (by === 'command') {
    if (!command) throw new Error('CALLS_VOICE=command needs CALLS_VOICE_COMMAND, a JSON array.')
    const port = voiceByCommand(command[0], command)
    return { by, where: 'server', name: port.name, port }
  }
  const program = await programOf('espeak-ng', path)
  if (program) {
    const port = espeakVoice(program)
    return { by: 'espeak', where: 'server', name: port.name, port }
  }
  if (by === 'espeak')
    throw new Error(
      'CALLS_VOICE=espeak, but espeak-ng is not on the PATH. Install it, or set CALLS_VOICE=browser.',
    )
  return { by: 'browser', where: 'device', name: 'browser' }
}

/** A program that is not there is told at boot, and not in the first call. */
async function demandProgram(
  variable: 'CALLS_HEARING' | 'CALLS_VOICE',
  env: Wanted,
  path: string,
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

import { RuntimeError } from '../../errors.ts'
import { instructionsFault, mostInstructionBytes } from '../../manifest/kernel-env.ts'
import type { Instructions } from '../../plugin/context.ts'
import { readBeginning } from '../variables/read-beginning.ts'

interface InstructionsEnv {
  readonly ORACLE_INSTRUCTIONS?: string
  readonly ORACLE_INSTRUCTIONS_FILE?: string
}

/** The instructions of an app, and the faults for which the boot stops. */
interface Read {
  readonly instructions: Instructions | undefined
  readonly faults: readonly RuntimeError[]
}

/**
 * The instructions that createApp was given, or else those of the environment: its text, or the text of its file. The
 * file is read even when createApp was given others, because a variable that cannot be used always stops the boot.
 */
export async function readInstructions(
  given: Instructions | undefined,
  { ORACLE_INSTRUCTIONS: text, ORACLE_INSTRUCTIONS_FILE: path }: InstructionsEnv,
): Promise<Read> {
  const faults: RuntimeError[] = []
  const fault = given === undefined || typeof given === 'function' ? undefined : faultOf(given)
  if (fault) faults.push(fault)
  if (path === undefined) return { instructions: given ?? text, faults }
  if (text !== undefined)
    faults.push(
      new RuntimeError(
        'ENV_INVALID',
        'Both ORACLE_INSTRUCTIONS and ORACLE_INSTRUCTIONS_FILE are set.',
        { hint: 'Unset one of the two.' },
      ),
    )
  const read = await textOf(path)
  if (typeof read === 'string') return { instructions: given ?? read, faults }
  return { instructions: given, faults: [...faults, read] }
}

function faultOf(instructions: unknown): RuntimeError | undefined {
  const fault = instructionsFault(instructions)
  return fault === undefined ? undefined : new RuntimeError('INSTRUCTIONS_INVALID', fault)
}

/** The text of a file, of which no more is read than instructions may have; or why it cannot be used. */
async function textOf(path: string): Promise<string | RuntimeError> {
  try {
    const { bytes } = await readBeginning(path, mostInstructionBytes + 1)
    if (bytes.length > mostInstructionBytes)
      return unusable(path, `it has more than ${mostInstructionBytes} bytes`)
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    if (error instanceof TypeError) return unusable(path, 'it is not text in UTF-8', error)
    return unusable(path, error instanceof Error ? error.message : String(error), error)
  }
}

const unusable = (path: string, why: string, cause?: unknown) =>
  new RuntimeError(
    'ENV_INVALID',
    `ORACLE_INSTRUCTIONS_FILE (the kernel) is "${path}", which cannot be used: ${why}.`,
    { hint: 'Name a text file of at most 16 KiB that the server may read, or unset it.', cause },
  )

import { createReadStream, existsSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { RuntimeError } from '../../core/errors.ts'
import { boot } from '../../core/runtime/app.ts'
import { readErasureLine, type ErasureLine } from '../../core/runtime/kept/erasure-file.ts'
import { appOfFolder } from '../app-of-folder.ts'
import { type Command, UsageError } from '../command.ts'
import { loadEnvFileIfAny } from '../env-file.ts'

/** Erases again what a restored PostgreSQL has brought back of users who were erased after its backup. */
export const command: Command = {
  usage: 'erase --replay <file>',
  example: 'oracle-runtime erase --replay erasures.ndjson',
  notes:
    'Run it after pg_restore and before a server starts. The file is what GET /erasures of the server answered before\n' +
    'the restore. Each user in it is found by a hash with the key of the oracle, so ORACLE_MNEMONIC must be the same.\n' +
    'A SQLite database needs no such command: its server reads DATA_DIR/erasures.ndjson before it listens.',
  options: { replay: { type: 'string' } },
  async run(words) {
    const file = words.text('replay')
    if (!file) throw new UsageError(`Name the file of erasures: oracle-runtime ${command.usage}`)
    if (!existsSync(file)) throw new UsageError(`There is no file ${resolve(file)}.`)
    if (statSync(file).isDirectory())
      throw new UsageError(`${resolve(file)} is a folder. Name the file of erasures in it.`)
    // A file of something else must not look like one without erasures.
    let lines = 0
    for await (const _ of linesOf(file)) lines++
    const { options } = await appOfFolder()
    const app = await boot(
      { ...options, env: options.env ?? loadEnvFileIfAny(), log: () => undefined },
      { isAside: true, bundled: async () => (await import('../../plugins/models.ts')).models },
    )
    try {
      const { erasures, users, open } = await app.erasures.replay(linesOf(file))
      console.log(
        `${lines} lines: ${erasures} were unknown here, and ${users} of their users were in the database.`,
      )
      if (users < erasures)
        console.log(
          'Who is not found was not there, or the ORACLE_MNEMONIC is not the one of before.',
        )
      if (open === 0) return 0
      console.error(
        `${open} have not ended: a part of each failed, and a server calls it again. GET /erasures says why.`,
      )
      return 1
    } finally {
      await app.close()
    }
  },
}

/** The erasures in a file, or an error for the first line that is none. */
async function* linesOf(file: string): AsyncGenerator<ErasureLine> {
  const input = createReadStream(file, 'utf8')
  let number = 0
  try {
    for await (const text of createInterface({ input, crlfDelay: Infinity })) {
      number++
      const line = readErasureLine(text)
      if (line) yield line
      else if (text.trim() !== '')
        throw new RuntimeError('INPUT_INVALID', `Line ${number} of ${file} names no erasure.`, {
          hint: 'Save the answer of GET /erasures as it is. Nothing was changed.',
        })
    }
  } finally {
    input.destroy()
  }
}

import { randomUUID } from 'node:crypto'
import {
  access,
  chmod,
  constants,
  link,
  mkdir,
  open,
  readFile,
  rename,
  rm,
  stat,
} from 'node:fs/promises'
import { dirname, join, parse, resolve } from 'node:path'
import { RuntimeError } from '../../errors.ts'
import { fieldsIn } from '../base/fields.ts'
import { type Holder, type Lock, takeLock } from './data-dir-lock.ts'
import { makeRoomOr } from './database-errors.ts'

/** The directory of what the runtime keeps on this machine, readable to its owner alone. */
export interface DataDir {
  readonly path: string
  /** The path of a file in the directory. */
  file(name: string): string
  /** What a file holds; undefined when there is none. */
  read(name: string): Promise<string | undefined>
  /** Creates a file whole or not at all. The first writer wins: resolves to what is there after. */
  writeOnce(name: string, content: string): Promise<string>
  /** Replaces a file whole or not at all. */
  write(name: string, content: string): Promise<void>
  /** Closes a file to everyone but its owner, when the file is there; `create` makes an empty file when it is not. */
  restrict(name: string, options?: { readonly create?: boolean }): Promise<void>
  /** Makes this process the one server here, or throws DATA_DIR_IN_USE with a sentence on the other server. */
  lock(holder: Holder): Promise<Lock>
}

/** Opens a data directory, making it when it is missing and closing it to others when it is open. */
export async function openDataDir(directory: string): Promise<DataDir> {
  const path = resolve(directory)
  await orUnusable(path, 'be used', () => prepare(path))

  function file(name: string): string {
    if (!/^[\w.-]+$/.test(name) || /^\.+$/.test(name))
      throw new TypeError(`"${name}" is not the name of a file in DATA_DIR.`)
    return join(path, name)
  }

  async function read(name: string): Promise<string | undefined> {
    return orUnusable(path, `give ${name}`, () =>
      readFile(file(name), 'utf8').catch((error) => {
        if (error.code === 'ENOENT') return undefined
        throw error
      }),
    )
  }

  return {
    path,
    file,
    read,

    async writeOnce(name, content) {
      await orUnusable(path, `take ${name}`, async () => {
        await viaTemporary(path, content, async (temporary) => {
          // Unlike a rename, a link never replaces; unlike an exclusive open, it appears with its content.
          await link(temporary, file(name)).catch((error) => {
            if (error.code !== 'EEXIST') throw error
          })
        })
      })
      return (await read(name)) ?? content
    },

    async write(name, content) {
      await orUnusable(path, `take ${name}`, () =>
        viaTemporary(path, content, (temporary) => rename(temporary, file(name))),
      )
    },

    async restrict(name, { create = false } = {}) {
      await orUnusable(path, `take ${name}`, () => restrict(file(name), create))
    },

    async lock(holder) {
      // Nothing here opens `server.lock` when it is there: closing any descriptor of the file would drop a lock that this
      // very process holds.
      await orUnusable(path, 'be locked', () => restrict(file('server.lock'), true))
      return takeLock(path, holder)
    },
  }
}

async function prepare(path: string): Promise<void> {
  await make(path)
  const { mode } = await stat(path)
  if ((mode & 0o777) !== 0o700) {
    if (path === parse(path).root || mode & 0o1000)
      throw new Error('it belongs to the whole machine. Give a directory of its own below it')
    await chmod(path, 0o700)
  }
  await access(path, constants.R_OK | constants.W_OK | constants.X_OK)
}

/** Makes a directory and what leads to it. Node's own `recursive` never ends where a file system takes no directories, such as /proc. */
async function make(path: string): Promise<void> {
  const failure = await makeOne(path)
  if (fieldsIn(failure).code !== 'ENOENT' || dirname(path) === path) {
    if (failure !== undefined) throw failure
    return
  }
  await make(dirname(path))
  const again = await makeOne(path)
  if (again !== undefined) throw again
}

/** What the system says to the making of a directory; undefined when it is there afterwards. */
async function makeOne(path: string): Promise<unknown> {
  try {
    await mkdir(path, { mode: 0o700 })
    return undefined
  } catch (error) {
    const isThere = await stat(path).then(
      (found) => found.isDirectory(),
      () => false,
    )
    return isThere ? undefined : error
  }
}

async function restrict(path: string, create: boolean): Promise<void> {
  if (create)
    await open(path, 'wx', 0o600).then(
      (created) => created.close(),
      (error) => {
        if (error.code !== 'EEXIST') throw error
      },
    )
  await chmod(path, 0o600).catch((error) => {
    if (error.code !== 'ENOENT') throw error
  })
}

/** Writes a temporary file through to the disk, lets `place` put it in its place, and tidies up. */
async function viaTemporary(
  path: string,
  content: string,
  place: (temporary: string) => Promise<void>,
): Promise<void> {
  const temporary = join(path, `.${randomUUID()}.tmp`)
  try {
    const handle = await open(temporary, 'wx', 0o600)
    try {
      await handle.writeFile(content)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await place(temporary)
    await syncDirectory(path)
  } finally {
    await rm(temporary, { force: true })
  }
}

/** The new name of a file survives a power cut only once the directory is written too. */
async function syncDirectory(path: string): Promise<void> {
  if (process.platform === 'win32') return // Windows neither opens a directory nor needs to
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

async function orUnusable<T>(path: string, what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof Error) || error instanceof TypeError) throw error
    throw new RuntimeError(
      'DATA_DIR_UNUSABLE',
      `DATA_DIR ${path} cannot ${what}: ${error.message}.`,
      {
        hint: makeRoomOr(
          error.message,
          'Set DATA_DIR to a directory that the user of this process owns.',
        ),
        cause: error,
      },
    )
  }
}

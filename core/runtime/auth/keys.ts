import { hash, timingSafeEqual } from 'node:crypto'
import { RuntimeError } from '../../errors.ts'

/** The keys that one kind of route accepts, each with a name for the log. */
export interface Keyring {
  /** The name of the key in an `Authorization` header, or undefined. Takes as long for either. */
  match(authorization: string | undefined): string | undefined
  /** Puts other keys in place, at once and for good; the old ones stay when the new are refused. */
  replace(value: string | undefined): void
  /** The names, for the boot report. */
  readonly names: readonly string[]
}

interface Key {
  readonly name: string
  readonly digest: Buffer
}

const keyName = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/
const mostHeaderCharacters = 1024

/**
 * Reads `name:value,name2:value2`, or one value alone, which gets the name `default`. `variable` is
 * what the errors call it; they never quote a value.
 */
export function createKeyring(value: string | undefined, variable = 'API_KEY'): Keyring {
  let keys = parse(value, variable)
  return {
    match(authorization) {
      const presented = /^bearer +(\S+) *$/i.exec(
        authorization !== undefined && authorization.length <= mostHeaderCharacters
          ? authorization
          : '',
      )
      const digest = hash('sha256', presented?.[1] ?? '', 'buffer')
      let name: string | undefined
      // Every key is compared, so that the time taken says nothing of which one came close.
      for (const key of keys) if (timingSafeEqual(key.digest, digest)) name = key.name
      return presented ? name : undefined
    },
    replace(next) {
      keys = parse(next, variable)
    },
    get names() {
      return keys.map(({ name }) => name)
    },
  }
}

function parse(value: string | undefined, variable: string): readonly Key[] {
  if (value === undefined || value.trim() === '') return []
  const parts = value.split(',').map((part) => part.trim())
  const keys = parts.map((part, index): Key => {
    const colon = part.indexOf(':')
    const name = colon < 0 ? 'default' : part.slice(0, colon).trim()
    const secret = part.slice(colon + 1).trim()
    // Where there is no colon the part before it could be the secret: the place names it, not the text.
    const which = `${variable}: key ${index + 1}`
    if (colon < 0 && parts.length > 1)
      invalid(`${which} of ${parts.length} has no name.`, 'Write each as name:value.')
    if (!keyName.test(name))
      invalid(`${which} has a name that is not letters, digits, ".", "_", "-".`)
    if (secret === '') invalid(`${which} is empty.`)
    if (!/^[\x21-\x7e]+$/.test(secret))
      invalid(`${which} holds a character that no header can carry.`)
    return { name, digest: hash('sha256', secret, 'buffer') }
  })
  for (const { name } of keys)
    if (keys.filter((key) => key.name === name).length > 1)
      invalid(`${variable}: two keys have the name "${name}".`)
  return keys
}

function invalid(message: string, hint = 'Write name:value,name2:value2, or one value.'): never {
  throw new RuntimeError('ENV_INVALID', message, { hint })
}

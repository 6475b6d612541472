import { hash, timingSafeEqual } from 'node:crypto'
import { RuntimeError } from '../../errors.ts'

interface Key {
  readonly name: string
  readonly digest: Buffer
}

const keyName = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/
const mostHeaderCharacters = 1024

/** The keys that one kind of route accepts, each with a name for the log. */
export class Keyring {
  readonly #variable: string
  #keys: readonly Key[]

  /**
   * Reads `name:value,name2:value2`, or one value alone, which gets the name `default`. Errors name the `variable` and
   * never quote a value.
   */
  constructor(value: string | undefined, variable = 'API_KEY') {
    this.#variable = variable
    this.#keys = parse(value, variable)
  }

  /** The name of the key in an `Authorization` header, or undefined. A match takes as long as a miss. */
  match(authorization: string | undefined): string | undefined {
    const presented = /^bearer +(\S+) *$/i.exec(
      authorization !== undefined && authorization.length <= mostHeaderCharacters
        ? authorization
        : '',
    )
    const digest = hash('sha256', presented?.[1] ?? '', 'buffer')
    let name: string | undefined
    // Every key is compared, so that the time taken says nothing of which one came close.
    for (const key of this.#keys) if (timingSafeEqual(key.digest, digest)) name = key.name
    return presented ? name : undefined
  }

  /** Puts other keys in place at once. Throws for malformed ones, and then the old keys stay. */
  replace(value: string | undefined): void {
    this.#keys = parse(value, this.#variable)
  }

  /** The names of the keys, which the log has when the keys were reloaded. */
  get names(): readonly string[] {
    return this.#keys.map(({ name }) => name)
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

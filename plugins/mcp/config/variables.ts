import type { Entry } from './schema.ts'

type Env = Readonly<Record<string, string | undefined>>

/** The entry with `${NAME}` and `${env:NAME}` in its texts replaced. Throws a sentence that names what is missing. */
export function filledIn(entry: Entry, env: Env): Entry {
  const fill = (text: string) => filled(text, env)
  const all = (texts: Readonly<Record<string, string>>) =>
    Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, fill(text)]))
  const { command, args, cwd, url, headers, oracle } = entry
  const { oauth } = oracle
  return {
    ...entry,
    ...(command !== undefined && { command: fill(command) }),
    args: args.map(fill),
    ...(cwd !== undefined && { cwd: fill(cwd) }),
    ...(url !== undefined && { url: fill(url) }),
    env: all(entry.env),
    headers: all(headers),
    oracle: {
      ...oracle,
      ...(oauth && {
        oauth: {
          ...oauth,
          clientId: fill(oauth.clientId),
          clientSecret: fill(oauth.clientSecret),
          ...(oauth.scopes && { scopes: oauth.scopes.map(fill) }),
        },
      }),
    },
  }
}

function filled(text: string, env: Env): string {
  return text.replaceAll(/\$\{([^}]*)\}/g, (whole, inside: string) => {
    const name = inside.startsWith('env:') ? inside.slice('env:'.length) : inside
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name))
      throw new Error(
        `it has ${whole}, which is not known here. Use \${NAME} of a variable of the environment.`,
      )
    const value = env[name]
    if (value === undefined)
      throw new Error(`it needs the variable ${name}, which is unset. Set it and start again.`)
    return value
  })
}

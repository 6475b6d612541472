import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import { Keyring } from '../../core/runtime/auth/keys.ts'

describe('a keyring', () => {
  test('of one value answers to the name "default"', () => {
    const keys = new Keyring('s3cret')
    expect(keys.match('Bearer s3cret')).toBe('default')
    expect(keys.match('bearer  s3cret')).toBe('default')
    expect(keys.names).toEqual(['default'])
  })

  test('of several tells which one was used', () => {
    const keys = new Keyring('ci:alpha-1, phone:beta:2')
    expect(keys.match('Bearer alpha-1')).toBe('ci')
    expect(keys.match('Bearer beta:2')).toBe('phone')
    expect(keys.names).toEqual(['ci', 'phone'])
  })

  test.each([
    undefined,
    '',
    'Bearer',
    'Bearer ',
    'Basic s3cret',
    's3cret',
    'Bearer s3cre',
    'Bearer s3cret2',
    'Bearer S3CRET',
    'Bearer s3cret s3cret',
    'Bearer ci',
    `Bearer ${'s3cret'.repeat(1000)}`,
  ])('does not answer to %s', (header) => {
    expect(new Keyring('ci:s3cret').match(header)).toBeUndefined()
  })

  test('without keys answers to nothing', () => {
    for (const none of [undefined, '', '  ']) {
      const keys = new Keyring(none)
      expect(keys.names).toEqual([])
      for (const header of [undefined, '', 'Bearer ', 'Bearer undefined'])
        expect(keys.match(header)).toBeUndefined()
    }
  })

  test('changes its keys while it is in use', () => {
    const keys = new Keyring('ci:old')
    keys.replace('ci:new')
    expect(keys.match('Bearer new')).toBe('ci')
    expect(keys.match('Bearer old')).toBeUndefined()
    keys.replace(undefined)
    expect(keys.match('Bearer new')).toBeUndefined()
  })

  test('keeps its keys when the new ones are refused', () => {
    const keys = new Keyring('ci:old')
    expect(() => keys.replace('ci:')).toThrow('API_KEY: key 1 is empty.')
    expect(keys.match('Bearer old')).toBe('ci')
  })

  test.each([
    ['ci:first,ci:second', 'OPERATOR_TOKEN: two keys have the name "ci".'],
    ['ci:first,phone:', 'OPERATOR_TOKEN: key 2 is empty.'],
    ['ci:first,', 'OPERATOR_TOKEN: key 2 of 2 has no name.'],
    ['first,second', 'OPERATOR_TOKEN: key 1 of 2 has no name.'],
    [':first', 'OPERATOR_TOKEN: key 1 has a name that is not letters, digits, ".", "_", "-".'],
    ['c i:first', 'OPERATOR_TOKEN: key 1 has a name that is not letters, digits, ".", "_", "-".'],
    ['ci:fi rst', 'OPERATOR_TOKEN: key 1 holds a character that no header can carry.'],
    ['ci:fïrst', 'OPERATOR_TOKEN: key 1 holds a character that no header can carry.'],
  ])('refuses %s without quoting a value', (value, message) => {
    try {
      new Keyring(value, 'OPERATOR_TOKEN')
      expect.unreachable()
    } catch (error) {
      expect(error).toMatchObject({ code: 'ENV_INVALID', message })
      expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toMatch(/f[iï] ?rst/)
    }
  })

  test('shows no key, whoever prints it or the errors about it', () => {
    const keys = ['alpha-key-of-somebody', 'beta-key-of-somebody-else']
    const keyring = new Keyring(`a:${keys[0]},b:${keys[1]}`)
    const said = [inspect(keyring, { depth: 9, showHidden: true }), JSON.stringify(keyring.names)]
    for (const wrong of [`a:${keys[0]},a:${keys[1]}`, `a:${keys[0]},${keys[1]}`, `a:${keys[0]} `])
      try {
        keyring.replace(wrong)
      } catch (error) {
        said.push(
          inspect(error, { depth: 9, showHidden: true }),
          JSON.stringify(error),
          String((error as Error).stack),
        )
      }
    expect(said.length).toBe(2 + 2 * 3) // the third one is a good key between spaces
    for (const key of keys) expect(said.join('\n')).not.toContain(key)
  })
})

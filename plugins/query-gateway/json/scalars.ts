import { ScalarType } from '@bufbuild/protobuf'

/** Makes the writer of a scalar by the proto3 JSON mapping. */
export function scalarJson(scalar: ScalarType): (value: never) => string {
  switch (scalar) {
    case ScalarType.STRING:
      return (value: string) => JSON.stringify(value)
    case ScalarType.BOOL:
      return (value: boolean) => (value ? 'true' : 'false')
    case ScalarType.BYTES:
      return ({ buffer, byteOffset, byteLength }: Uint8Array<ArrayBuffer>) =>
        `"${Buffer.from(buffer, byteOffset, byteLength).toString('base64')}"`
    case ScalarType.INT64:
    case ScalarType.UINT64:
    case ScalarType.SINT64:
    case ScalarType.FIXED64:
    case ScalarType.SFIXED64:
      return (value: bigint) => `"${value}"`
    case ScalarType.FLOAT:
      return (value: number) => special(value) ?? shortestFloat(value)
    case ScalarType.DOUBLE:
      return (value: number) => special(value) ?? String(value)
    default:
      return (value: number) => String(value)
  }
}

function special(value: number): string | undefined {
  if (Number.isFinite(value)) return Object.is(value, -0) ? '-0' : undefined
  return Number.isNaN(value) ? '"NaN"' : value > 0 ? '"Infinity"' : '"-Infinity"'
}

/** The shortest text that gives the same 32-bit float: 0.1, not 0.10000000149011612. */
export function shortestFloat(value: number): string {
  for (let digits = 1; digits < 9; digits++) {
    const short = Number(value.toPrecision(digits))
    if (Math.fround(short) === value) return String(short)
  }
  return String(Number(value.toPrecision(9)))
}

const decimalPlaces = 18

/** Writes an integer of 18 decimals as a decimal: `1500000000000000000` becomes `1.5`. Other texts stay as they are. */
export function decimalText(text: string): string {
  const match = /^(-?)(\d+)$/.exec(text)
  if (match === null) return text
  const digits = (match[2] ?? '').padStart(decimalPlaces + 1, '0')
  const fraction = digits.slice(-decimalPlaces).replace(/0+$/, '')
  const whole = digits.slice(0, -decimalPlaces).replace(/^0+(?=\d)/, '')
  return `${match[1]}${whole}${fraction === '' ? '' : `.${fraction}`}`
}

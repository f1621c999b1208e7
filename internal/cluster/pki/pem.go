package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// MaxText is the maximum size of a PEM text in bytes. A key and two certificates have less than 4 KiB.
const MaxText = 64 << 10

const (
	certificateType = "CERTIFICATE"
	keyType         = "PRIVATE KEY"
)

// EncodeCertificates returns certificates in PEM.
func EncodeCertificates(all ...*x509.Certificate) []byte {
	var text []byte
	for _, c := range all {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: certificateType, Bytes: c.Raw})...)
	}
	return text
}

// EncodeKey returns a private key in PEM.
func EncodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyType, Bytes: der}), nil
}

// ParseCertificates reads a number of certificates in PEM, and nothing else.
func ParseCertificates(text []byte, number int) ([]*x509.Certificate, error) {
	blocks, err := decode(text, certificateType, number)
	if err != nil {
		return nil, err
	}
	all := make([]*x509.Certificate, len(blocks))
	for i, der := range blocks {
		if all[i], err = x509.ParseCertificate(der); err != nil {
			return nil, fmt.Errorf("certificate %d of %d is damaged: %w", i+1, number, err)
		}
	}
	return all, nil
}

// ParseKey reads a private key in PEM, and nothing else. The error does not reveal the key.
func ParseKey(text []byte) (*ecdsa.PrivateKey, error) {
	blocks, err := decode(text, keyType, 1)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(blocks[0])
	if err != nil {
		return nil, errors.New("the private key is damaged")
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("the private key is of another kind; expected an ECDSA key on P-256")
	}
	if _, err := PublicKey(&key.PublicKey); err != nil {
		return nil, err
	}
	return key, nil
}

// decode returns the contents of a number of PEM blocks of one type. What encoding/pem skips is an error: text
// between blocks, and blocks that are cut off or damaged.
func decode(text []byte, kind string, number int) (all [][]byte, err error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("%d bytes are too many; expected at most %d", len(text), MaxText)
	}
	for rest := text; len(rest) > 0; {
		block, after := pem.Decode(rest)
		if block == nil || !bytes.Equal(rest[:len(rest)-len(after)], pem.EncodeToMemory(block)) {
			return nil, fmt.Errorf("other text or a damaged block after %d PEM blocks; expected %d of the type %s",
				len(all), number, kind)
		}
		if block.Type != kind || len(all) == number {
			return nil, fmt.Errorf("PEM block %d is of the type %.40q; expected %d of the type %s, and no other",
				len(all)+1, block.Type, number, kind)
		}
		all, rest = append(all, block.Bytes), after
	}
	if len(all) < number {
		return nil, fmt.Errorf("%d PEM blocks of the type %s; expected %d", len(all), kind, number)
	}
	return all, nil
}

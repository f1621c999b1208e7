package identity

import (
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/pki"
	"github.com/coppice-dev/coppice/internal/private"
)

const (
	keyFile         = "key.pem"
	certificateFile = "certificate.pem"

	joinAgain = `join again with: coppice cluster join TOKEN`
)

// EnsureKey returns the private key in a directory, and makes both if they are missing. Only one program may call it
// at a time.
func EnsureKey(dir string) (*ecdsa.PrivateKey, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := private.Dir(dir); err != nil {
		return nil, err
	}
	key, err := readKey(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if key, err = pki.NewKey(); err != nil {
		return nil, err
	}
	text, err := pki.EncodeKey(key)
	if err != nil {
		return nil, err
	}
	if err := private.ReplaceSynced(filepath.Join(dir, keyFile), text); err != nil {
		return nil, fmt.Errorf("writing the key of this node: %w", err)
	}
	return key, nil
}

// Save writes the certificates into a directory that has the key.
func (i *Identity) Save(dir string) error {
	if err := private.Dir(dir); err != nil {
		return err
	}
	key, err := readKey(dir)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, certificateFile)
	if !key.Equal(i.key) {
		return fmt.Errorf("cannot write %s: it would not fit %s, which is the key of another node", file, keyFile)
	}
	if err := private.ReplaceSynced(file, pki.EncodeCertificates(i.certificate, i.authority)); err != nil {
		return fmt.Errorf("writing the certificate of this node: %w", err)
	}
	return nil
}

// Load reads the identity in a directory. The error wraps fs.ErrNotExist if the machine has not joined. If the
// certificate has expired, Load returns the identity together with an error that wraps pki.ErrExpired. A caller that
// can still read the store may renew it.
func Load(dir string) (*Identity, error) {
	i, err := load(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("this machine is no node of a fleet: %w; join one with: coppice cluster join TOKEN", err)
	case err != nil:
		return nil, fmt.Errorf("reading the identity of this node: %w", err)
	}
	err = i.CheckTime(time.Now())
	switch {
	case errors.Is(err, pki.ErrExpired):
		return i, fmt.Errorf("%s: %w; %s", filepath.Join(dir, certificateFile), err, joinAgain)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, certificateFile), err)
	}
	return i, nil
}

// Exists reports whether there is a certificate in a directory.
func Exists(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, certificateFile))
	return err == nil
}

func load(dir string) (*Identity, error) {
	if err := private.Dir(dir); err != nil {
		return nil, err
	}
	key, err := readKey(dir)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, certificateFile)
	text, err := private.ReadFile(file, pki.MaxText)
	if err != nil {
		return nil, withFix(err)
	}
	all, err := pki.ParseCertificates(text, 2)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; %s", file, err, joinAgain)
	}
	i, err := New(key, all[0], all[1])
	if err != nil {
		return nil, fmt.Errorf("%s, with %s: %w; %s", file, keyFile, err, joinAgain)
	}
	return i, nil
}

// readKey reads the private key in a directory.
func readKey(dir string) (*ecdsa.PrivateKey, error) {
	file := filepath.Join(dir, keyFile)
	text, err := private.ReadSecret(file, pki.MaxText)
	if err != nil {
		return nil, withFix(err)
	}
	key, err := pki.ParseKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; remove it, and %s", file, err, joinAgain)
	}
	return key, nil
}

// withFix adds what to do to the error of a file for which package private knows no remedy.
func withFix(err error) error {
	if unsafe := new(private.Error); errors.As(err, &unsafe) && unsafe.Fix == "" {
		return fmt.Errorf("%w; remove it, and %s", err, joinAgain)
	}
	return err
}
